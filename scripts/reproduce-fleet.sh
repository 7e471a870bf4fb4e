#!/usr/bin/env bash
# Simulates a week of a thousand clusters of two thousand nodes each under one front, and writes the tables of docs/scale.md. Every
# submission is routed; four of the clusters are simulated in full. Takes half an hour on two cores, and 4 GiB of memory.
#
#   scripts/reproduce-fleet.sh [--quick | --only-page | --only RUN]
#
# --quick only sees whether it runs. --only-page: from what was measured before. --only: speed, full, router,
# small or reports; the others as measured before.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac

"$root/scripts/build.sh" adaptdl-sim
exec /usr/bin/python3 "$root/scripts/lib/results/fleet.py" --build "$root/build/release" "$@"
