#!/usr/bin/env bash
# Replays Sia's published workloads on its heterogeneous cluster under the default policy and our own `sia` policy, and
# writes the tables of docs/results.md. Takes about half an hour on two cores.
#
#   scripts/reproduce-sia.sh ARTIFACT [--recorded-peers]
#
# ARTIFACT: the folder of the published artifact with its workloads, its traces and their triangulations, as
# docs/simulator.md says; a folder "pollux" beside it has the step times that both simulators share.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  ''|-h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac

"$root/scripts/build.sh" adaptdl-sim
exec /usr/bin/python3 "$root/scripts/lib/results/sia.py" --simulator "$root/build/release/bin/adaptdl-sim" "$@"
