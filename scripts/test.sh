#!/usr/bin/env bash
# Sets the system up, builds everything and runs the tests. The last lines are ctest's summary.
#
#   scripts/test.sh [--preset release|debug|asan|tsan] [--jobs N] [CTEST ARGUMENTS...]
#
#   scripts/test.sh -R supervisor       only tests whose name matches
#   scripts/test.sh -L unit             only the quick ones
#   scripts/test.sh -LE compose         all but the one that needs a Docker engine
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=release
build_args=()
ctest_args=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --preset) preset=${2:?--preset needs a name}; shift ;;
    --jobs) build_args+=(--jobs "${2:?--jobs needs a number}"); shift ;;
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    *) ctest_args+=("$1") ;;
  esac
  shift
done

cd "$root"
scripts/build.sh --preset "$preset" "${build_args[@]}"
# Many tests wait for others' answers most of the time: twice as many as there are cores keep these busy.
exec ctest --preset "$preset" --parallel "$(($(nproc) * 2))" "${ctest_args[@]}"
