#!/usr/bin/env bash
# Replays Pollux's published workloads on node pools that come and go, on demand and on spot markets, and writes the tables
# of docs/results.md that say what that costs. Takes about five minutes on two cores.
#
#   scripts/reproduce-cost.sh ARTIFACT [--quick]
#
# ARTIFACT: the simulator's folder of the published artifact (petuum/adaptdl, branch osdi21-artifact), with its step times
# tabulated as docs/simulator.md says; without it nothing is done. --quick only sees whether it runs, and writes nothing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  ''|-h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac
if [[ ! -d $1/workloads ]]; then
  echo "reproduce-cost: SKIPPED: no workloads in $1" >&2
  exit 0
fi

"$root/scripts/build.sh" adaptdl-sim
exec /usr/bin/python3 "$root/scripts/lib/results/cost.py" --simulator "$root/build/release/bin/adaptdl-sim" "$@"
