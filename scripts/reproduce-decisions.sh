#!/usr/bin/env bash
# Measures what decisions of the goodput policy cost, in processor time and memory, by the number of jobs and GPUs, and writes the
# table and the plot of docs/results.md. Takes some two minutes on a machine with nothing else to do.
#
#   scripts/reproduce-decisions.sh [--quick | --only-page]
#
# --quick only sees whether it runs. --only-page: from what was measured before.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac

"$root/scripts/build.sh" allocator_bench
exec /usr/bin/python3 "$root/scripts/lib/results/decisions.py" --build "$root/build/release" "$@"
