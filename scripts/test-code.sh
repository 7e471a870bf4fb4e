#!/usr/bin/env bash
# Folders that travel with jobs, at full length: 50,000 files of 1 GiB together go from a user to a supervisor and on to a node, none of
# which have a folder in common, by a connection that is cut while the supervisor is killed; and what AdaptDL's tutorial does (minutes;
# as much room in $TMPDIR as five such folders). It says how many seconds that took. The tests have a short version.
#
#   scripts/test-code.sh
#   scripts/test-code.sh --files 1000 --mebibytes 4000
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
files=50000
mebibytes=1024
while [[ $# -gt 0 ]]; do
  case $1 in
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    --files|--mebibytes)
      [[ ${2-} =~ ^[1-9][0-9]*$ ]] || { echo "test-code: error: $1 needs a number, got '${2-}'" >&2; exit 2; }
      declare "${1#--}=$2"
      shift ;;
    *) echo "test-code: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
  esac
  shift
done
cd "$root"
scripts/build.sh adaptdl adaptdl-supervisor adaptdl-allocator adaptdl-worker adaptdl-shim adaptdl_python
/usr/bin/python3 tests/integration/code_acceptance/code_acceptance_test.py build/release --files "$files" --mebibytes "$mebibytes"
