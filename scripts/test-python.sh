#!/usr/bin/env bash
# Tests Python's package beyond what ctest does: AdaptDL's own unit tests, as they lie in its wheel, and the package's tests
# with the newest PyTorch of the Python registry (1 to 3 GB, once).
#
#   scripts/test-python.sh             AdaptDL's own tests, with Debian's Python and PyTorch
#   scripts/test-python.sh --newest    and the package's tests with the newest PyTorch
#
# Builds what it needs in build/release, and keeps what it gets in build/python-tests. Exits with 77 (skipped) where there is
# no PyTorch, or the registry is out of reach.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build/release
kept=build/python-tests
newest=
case "${1:-}" in
  "") ;;
  --newest) newest=yes ;;
  -h|--help) sed -n '2,/^set/p' "scripts/test-python.sh" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
  *) echo "test-python: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
esac

skip() { echo "SKIPPED: $*" >&2; exit 77; }
/usr/bin/python3 -c 'import torch' 2>/dev/null || skip "no PyTorch for /usr/bin/python3; scripts/setup.sh installs one"
[[ -d $build ]] || cmake --preset release
cmake --build --preset release --target adaptdl_python adaptdl

scripts/test-adaptdl-compat.sh "$build"

mkdir -p "$kept"
if [[ -n $newest ]]; then
  python=$(tests/venv.sh "$kept/venv-newest" python/tests/requirements-newest.txt)
  "$python" python/tests/run.py "$build/python" test_alone test_checkpoints test_replicas
fi
