#!/usr/bin/env bash
# Sets the system up, configures and builds.
#
#   scripts/build.sh [--preset release|debug|asan|tsan|fuzz] [--jobs N] [TARGET...]
#
# The programs land in build/<preset>/bin. Without --jobs it starts one compiler per core, but no more than there is
# memory for (2 GiB each: LibTorch's headers are large).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=release
jobs=
targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --preset) preset=${2:?--preset needs a name}; shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    -*) echo "build: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
    *) targets+=(--target "$1") ;;
  esac
  shift
done

if [[ -z $jobs ]]; then
  cores=$(nproc)
  memory_gib=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
  jobs=$((memory_gib / 2 < cores ? memory_gib / 2 : cores))
  jobs=$((jobs < 1 ? 1 : jobs))
fi

cd "$root"
scripts/setup.sh
# Lets ccache find what another clone has compiled already.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
echo "build: preset $preset, $jobs jobs"
cmake --preset "$preset"
cmake --build --preset "$preset" --parallel "$jobs" "${targets[@]}"
