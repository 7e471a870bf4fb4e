#!/usr/bin/env bash
# Replays Pollux's published workloads under the default policy and the policies that people would otherwise run, and
# writes the tables and plots of docs/results.md. Takes about ten minutes on two cores.
#
#   scripts/reproduce-pollux.sh ARTIFACT [--pollux-workloads N] [--recorded-peers] [--only-in-place | --only-plain]
#
# ARTIFACT: the simulator's folder of the published artifact (petuum/adaptdl, branch osdi21-artifact), with its step times
# tabulated as docs/simulator.md says.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  ''|-h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac

"$root/scripts/build.sh" adaptdl-sim
exec /usr/bin/python3 "$root/scripts/lib/results/pollux.py" --simulator "$root/build/release/bin/adaptdl-sim" "$@"
