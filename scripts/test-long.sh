#!/usr/bin/env bash
# Runs the tests that are too long for every change, at full length, part by part, and records each part that has passed
# in docs/results.md, with date and commit. A part that has passed is not run again until what it is made of changes, so
# that this can be stopped at any time and goes on where it was. All parts together take about six hours on two cores.
#
#   scripts/test-long.sh                    what the present code has not passed yet
#   scripts/test-long.sh chaos fuzz         these parts, also if they have been passed
#   scripts/test-long.sh --list             the parts, and when each one was passed
#
# What a part prints goes to the terminal and to build/long/PART.log. Everything must be committed: a record names the
# commit that it holds for.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac
exec /usr/bin/python3 "$root/scripts/lib/results/long_runs.py" "$@"
