#!/usr/bin/env bash
# Runs the tests of this folder, or those that are named: run.sh BUILD_FOLDER [unittest's names...]
#
# Exits with 77 (skipped) where kubectl is missing or Kubernetes' schemas can't be had; they are kept in BUILD_FOLDER.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$1" && pwd)
shift

command -v kubectl >/dev/null || { echo "SKIPPED: no kubectl; scripts/setup.sh installs one" >&2; exit 77; }
python=$("$here/../../venv.sh" "$build/kubernetes-venv" "$here/requirements.txt")
cd "$here"
export ADAPTDL_BIN=$build/bin PYTHONDONTWRITEBYTECODE=1
if [[ $# -gt 0 ]]; then exec "$python" -m unittest "$@"; fi
exec "$python" -m unittest discover -p '*_test.py'
