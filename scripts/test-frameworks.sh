#!/usr/bin/env bash
# Tests the ways into the Python package for PyTorch Lightning and Hugging Face's Trainer, and their examples, with the newest
# PyTorch of the Python registry: alone, with several replicas, stopped and started again, and on a cluster whose replicas come,
# go and are killed. Builds the package and the cluster first, unless their folder is given.
#
#   scripts/test-frameworks.sh [BUILD_FOLDER]      such as build/release
#
# Gets 3 GB once, which it keeps in BUILD_FOLDER/venvs, and takes ten minutes on two cores. Exits with 77 (skipped) where the
# registry is out of reach.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac
build=${1:-}
if [[ -z $build ]]; then
  build=$root/build/release
  "$root/scripts/build.sh" adaptdl_python integration_python_rescale_test
fi
build=$(cd "$build" && pwd)
python=$("$root/tests/venv.sh" "$build/venvs/frameworks" "$root/tests/python/frameworks/requirements.txt")
"$python" "$root/tests/python/frameworks/frameworks_test.py" "$build/python"
