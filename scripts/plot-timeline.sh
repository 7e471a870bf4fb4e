#!/usr/bin/env bash
# Draws how many replicas the jobs of a cluster have had, and when: one bar per job, as thick as it had replicas.
#
#   adaptdl timeline -o json >timeline.json
#   scripts/plot-timeline.sh timeline.json PICTURE.svg [--title TEXT]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  ''|-h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac

exec /usr/bin/python3 "$root/scripts/lib/results/timeline_picture.py" "$@"
