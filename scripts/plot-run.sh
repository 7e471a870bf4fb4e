#!/usr/bin/env bash
# Draws one run of the simulator: the distribution of completion times, GPUs in use over time, and one bar per job.
#
#   scripts/plot-run.sh RUN.json PICTURE.svg
#
# RUN.json: what "adaptdl-sim replay -o json --timeline" has written.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  ''|-h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac

exec /usr/bin/python3 "$root/scripts/lib/results/run_picture.py" "$@"
