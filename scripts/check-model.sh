#!/usr/bin/env bash
# Searches the model of in-place re-scaling (tests/model) for what takes too long in the tests: that each of its mutants is
# found to be wrong, and the larger sizes: a death during a change, two changes, a crash of the supervisor on top, and that
# training goes on after a death. Minutes, and up to 6 GB of memory.
#
#   scripts/check-model.sh
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  "") ;;
  -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
  *) echo "check-model: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
esac
"$root/tests/model/check.sh" mutants
MEMORY=6000 OPTIMISE=-O2 exec "$root/tests/model/check.sh" large
