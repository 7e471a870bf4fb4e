#!/usr/bin/env bash
# Spot machines at full length: ten times, a node of a job that trains on real digits is taken back by its cloud (a fake
# metadata service), with half a minute's notice, and is killed at the end of that; a new one comes. The job must have left the node
# before, without a lost step, a sample seen twice or a restart (about ten minutes). The tests have a short version.
#
#   scripts/test-spot.sh
#   scripts/test-spot.sh --notices 3 --window 120     with the two minutes that AWS gives
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
notices=10
window=30
while [[ $# -gt 0 ]]; do
  case $1 in
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    --notices|--window)
      [[ ${2-} =~ ^[1-9][0-9]*$ ]] || { echo "test-spot: error: $1 needs a number, got '${2-}'" >&2; exit 2; }
      declare "${1#--}=$2"
      shift ;;
    *) echo "test-spot: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
  esac
  shift
done
cd "$root"
scripts/build.sh spot_test
ADAPTDL_SPOT_NOTICES=$notices ADAPTDL_SPOT_WINDOW=$window build/release/tests/spot_test
