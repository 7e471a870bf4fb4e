#!/usr/bin/env bash
# Replays Pollux's and Sia's published workloads with each job's work drawn around its application's, where the policy knows
# nothing of the work left, what finished jobs of the same application took, or all, and writes the table of
# docs/results.md. Takes about ten minutes on two cores.
#
#   scripts/reproduce-history.sh POLLUX SIA
#
# POLLUX, SIA: the folders of the published artifacts with their workloads and traces, as docs/simulator.md says.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  ''|-h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac

"$root/scripts/build.sh" adaptdl-sim
exec /usr/bin/python3 "$root/scripts/lib/results/history.py" --simulator "$root/build/release/bin/adaptdl-sim" "$@"
