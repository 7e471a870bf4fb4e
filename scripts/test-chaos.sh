#!/usr/bin/env bash
# The tests' random faults at full length: a job is re-scaled in place 200 times while replicas, workers and the
# supervisor are killed 100 times, and must have trained as if nothing had happened (15 to 20 minutes for each of three
# modes of the batch size); so does a job of Python's package; a supervisor is killed 300 times at random instants, some
# of them on a disk that fails, and must have kept what it acknowledged (2 minutes). The tests have a short version of each.
#
#   scripts/test-chaos.sh
#   scripts/test-chaos.sh --seed 2       other events; what they meet depends on the machine as well
#   scripts/test-chaos.sh --rescales 20 --kills 10 --store-kills 50
#   scripts/test-chaos.sh --store-kills 0             only the jobs
#   scripts/test-chaos.sh --store-kills 0 --job python     only that of Python's package; "cpp": only the others
#   scripts/test-chaos.sh --rescales 0 --kills 0      only the store
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rescales=200
kills=100
store_kills=300
seed=1
jobs=(cpp python)
while [[ $# -gt 0 ]]; do
  case $1 in
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    --rescales|--kills|--store-kills|--seed)
      [[ ${2-} =~ ^[0-9]+$ ]] || { echo "test-chaos: error: $1 needs a number, got '${2-}'" >&2; exit 2; }
      name=${1#--}
      declare "${name//-/_}=$2"
      shift ;;
    --job)
      [[ ${2-} == cpp || ${2-} == python ]] || { echo "test-chaos: error: --job is cpp or python, not '${2-}'" >&2; exit 2; }
      jobs=("$2")
      shift ;;
    *) echo "test-chaos: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
  esac
  shift
done
cd "$root"
declare -A tests=([cpp]=chaos_test [python]=python_chaos_test)
targets=()
((store_kills == 0)) || targets+=(store_crash_test)
((rescales + kills == 0)) || for job in "${jobs[@]}"; do targets+=("${tests[$job]}"); done
scripts/build.sh "${targets[@]}"
if ((store_kills > 0)); then
  ADAPTDL_STORE_KILLS=$store_kills ADAPTDL_STORE_SEED=$seed build/release/tests/store_crash_test
fi
if ((rescales + kills > 0)); then
  for job in "${jobs[@]}"; do
    ADAPTDL_CHAOS_RESCALES=$rescales ADAPTDL_CHAOS_KILLS=$kills ADAPTDL_CHAOS_SEED=$seed "build/release/tests/${tests[$job]}"
  done
fi
