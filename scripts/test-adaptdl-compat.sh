#!/usr/bin/env bash
# Runs AdaptDL's own unit tests, which its wheel in the Python registry holds, against this project's Python package. Which of them
# are left out, and why, is in tests/python/compat/compat.toml. Builds the package first, unless its folder is given.
#
#   scripts/test-adaptdl-compat.sh [BUILD_FOLDER]      such as build/release
#
# Exits with 77 (skipped) where the registry is out of reach. Takes a minute.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac
build=${1:-}
if [[ -z $build ]]; then
  build=$root/build/release
  "$root/scripts/build.sh" adaptdl_python
fi
build=$(cd "$build" && pwd)

python=$("$root/tests/venv.sh" "$build/venvs/adaptdl-compat" "$root/tests/python/compat/requirements.txt" --system-site-packages)
"$python" -c 'import torch' 2>/dev/null || { echo "SKIPPED: /usr/bin/python3 has no PyTorch; scripts/setup.sh installs it" >&2; exit 77; }

wheel=$build/adaptdl-wheel
if [[ ! -f $wheel/adaptdl/conftest.py ]]; then
  download=$(mktemp -d)
  trap 'rm -rf "$download"' EXIT
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$download" adaptdl==0.2.11 >&2 ||
    { echo "SKIPPED: the Python registry, which has AdaptDL's wheel, is out of reach" >&2; exit 77; }
  rm -rf "$wheel"
  "$python" -m zipfile -e "$download"/adaptdl-*.whl "$wheel"
fi
"$python" "$root/tests/python/compat/run_tests.py" "$wheel/adaptdl" "$build/python"
