#!/usr/bin/env bash
# Checks rescale.pml by SPIN: check.sh small | mutants | large. Exits with 77 (skipped) where SPIN is missing.
set -euo pipefail

model=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/rescale.pml
command -v spin >/dev/null || { echo "model: SKIPPED, nothing was checked: there is no spin" >&2; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# compile FLAGS -- SIZES...: makes "pan", which searches the model. Small searches take less time than -O2.
compile() {
  local flags=()
  for (( ; ; )); do
    local flag=$1
    shift
    [[ $flag == -- ]] && break
    flags+=("$flag")
  done
  rm -f pan pan.*
  spin "$@" -a "$model" >/dev/null
  gcc "${OPTIMISE:--O1}" -w "${flags[@]}" -DMEMLIM="${MEMORY:-1000}" -DVECTORSZ=2048 -o pan pan.c
}

# search STORE SIZES...: for violated assertions; leaves SPIN's report in "report".
search() {
  compile -DSAFETY "$1" -- "${@:2}"
  ./pan -m100000 >report
  grep -q 'errors: ' report
}

# search_runs SIZES...: for runs that do not end as the formula says, with every process that can go on going on.
search_runs() {
  compile -DHC4 -DNFAIR=3 -- -DLIVENESS "$@"
  ./pan -a -f -m1000000 >report
  grep -q 'errors: ' report
}

complete() { ! grep -qi 'max search depth too small\|out of memory\|reached -DMEMLIM' report; }

# holds STORE SIZES...
holds() {
  search "$@"
  if ! grep -q 'errors: 0' report || ! complete; then
    cat report
    spin "${@:2}" -t -k "$(basename "$model").trail" -p "$model" | tail -100
    echo "model: error: violated, or not searched to the end, for $*" >&2
    exit 1
  fi
  echo "model: holds for ${*:2} ($(grep -o '[0-9.e+]* states, stored' report))"
}

# breaks MUTANT SIZES...
breaks() {
  search -DHC4 -DMUTANT_"$1" "${@:2}"
  grep -q 'assertion violated' report || { cat report; echo "model: error: mutant $1 was not found" >&2; exit 1; }
  echo "model: mutant $1 is found"
}

# goes_on SIZES...: when faults stop, training goes on.
goes_on() {
  search_runs "$@"
  if ! grep -q 'errors: 0' report || ! complete; then
    cat report
    spin -DLIVENESS "$@" -t -k "$(basename "$model").trail" -p "$model" | tail -100
    echo "model: error: training does not go on, or not searched to the end, for $*" >&2
    exit 1
  fi
  echo "model: training goes on for $* ($(grep -o '[0-9.e+]* states, stored' report))"
}

# stops_going_on MUTANT SIZES...: of a mutant that breaks no assertion.
stops_going_on() {
  search -DHC4 -DMUTANT_"$1" "${@:2}"
  grep -q 'errors: 0' report || { cat report; echo "model: error: mutant $1 breaks more than it should" >&2; exit 1; }
  search_runs -DMUTANT_"$1" "${@:2}"
  grep -q 'acceptance cycle' report || { cat report; echo "model: error: mutant $1 was not found" >&2; exit 1; }
  echo "model: mutant $1 is found by the formula only"
}

case ${1:-} in
  small)
    holds -DHC4 -DN=2 -DDEATHS=1 -DCHANGES=1 -DCRASHES=1
    holds -DHC4 -DN=2 -DDEATHS=0 -DCHANGES=1 -DHANGS=1
    holds -DHC4 -DN=3 -DDEATHS=0 -DCHANGES=1 -DCRASHES=1
    holds -DHC4 -DN=3 -DFIRST=3 -DDEATHS=1 -DCHANGES=0
    holds -DHC4 -DBETWEEN -DN=2 -DDEATHS=1 -DCHANGES=1 -DCRASHES=1
    goes_on -DBETWEEN -DN=2 -DDEATHS=1 -DCHANGES=0
    goes_on -DN=2 -DDEATHS=1 -DCHANGES=1 -DCRASHES=1
    goes_on -DN=2 -DDEATHS=0 -DCHANGES=1 -DHANGS=1
    goes_on -DN=3 -DDEATHS=0 -DCHANGES=1 -DCRASHES=1
    stops_going_on REPORTS_BEGIN_ANEW -DN=2 -DDEATHS=0 -DCHANGES=0 -DHANGS=1
    ;;
  mutants)
    breaks COMMIT_BEFORE_BARRIER -DN=3
    breaks NO_BARRIER_BEFORE_LEAVING -DN=3
    breaks OLD_NOT_TURNED_AWAY -DN=3
    breaks NO_COMPARISON -DN=3 -DDEATHS=0 -DCHANGES=2
    breaks NEW_WORLD_SIZE -DN=3 -DFIRST=3 -DCHANGES=0
    breaks DROPS_OPEN -DBETWEEN -DN=3 -DFIRST=3 -DCHANGES=0
    breaks KEEPS_HALF_DONE -DBETWEEN -DN=3 -DFIRST=3 -DCHANGES=0
    breaks NO_ROLL_FORWARD -DN=3 -DFIRST=3 -DCHANGES=0
    ;;
  large)
    breaks LEFT_OUT_COMES_BACK -DN=3
    goes_on -DN=3 -DFIRST=3 -DDEATHS=1 -DCHANGES=0
    goes_on -DN=3 -DDEATHS=1 -DCHANGES=1
    holds -DHC4 -DBETWEEN -DN=3 -DFIRST=3 -DDEATHS=1 -DCHANGES=0
    holds -DHC4 -DN=3 -DDEATHS=1 -DCHANGES=1
    holds -DHC4 -DN=3 -DDEATHS=0 -DCHANGES=2
    holds -DBITSTATE -DN=3 -DDEATHS=1 -DCHANGES=1 -DCRASHES=1 -DG=8
    ;;
  *) echo "model: error: say small, mutants or large" >&2; exit 2 ;;
esac
