#!/usr/bin/env bash
# Shows what AdaptDL does, on this machine: sets it up, builds, starts a cluster with one node per core (four at most:
# digits are too small a task for more), and trains two jobs on it. Job a starts on one node and grows over all of them;
# job b arrives, a makes room, both train; b ends, a grows again. Takes a few minutes after the build, and cleans up
# behind itself.
#
#   scripts/demo.sh [--dashboard | --pictures DIR] [--jobs N]      N: compilers at a time while building
#
# With --dashboard it prints the URL of the web dashboard while that goes on, and keeps the cluster until Ctrl-C. With
# --pictures it leaves demo-timeline.svg and demo-dashboard.png in a folder: those of the documents are made so.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac
dashboard=
pictures=
case ${1:-} in
  --dashboard) dashboard=1; shift ;;
  --pictures) pictures=$(realpath "${2:?--pictures needs a folder}"); shift 2 ;;
esac

"$root/scripts/build.sh" "$@" adaptdl adaptdl-supervisor adaptdl-allocator adaptdl-autoscaler adaptdl-worker \
  adaptdl-shim adaptdl-environment adaptdl-netperf adaptdl-mnist
export PATH=$root/build/release/bin:$PATH

nodes=$(nproc)
nodes=$((nodes < 2 ? 2 : nodes > 4 ? 4 : nodes))
# Long enough for the whole story, and for more nodes to be worth a change where they add little speed, as cores that
# share one memory do.
epochs_a=$((10 * nodes))
epochs_b=2

bold=
plain=
if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; fi
headline() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
fail() {
  echo "demo: error: $*" >&2
  adaptdl ls >&2 || true
  adaptdl events a >&2 || true
  exit 1
}

ADAPTDL_HOME=$(mktemp -d "${TMPDIR:-/tmp}/adaptdl-demo.XXXXXX")
export ADAPTDL_HOME
unset ADAPTDL_SUPERVISOR_ADDRESS ADAPTDL_CA_FILE ADAPTDL_TOKEN ADAPTDL_TOKEN_FILE ADAPTDL_INSECURE  # they would win
export ADAPTDL_SERVER_ADAPTDL_HTTP=127.0.0.1:0  # jobs of AdaptDL's Python package would run as well
clean_up() {
  local status=$?
  trap - EXIT
  [[ -z ${dashboard_pid:-} ]] || kill "$dashboard_pid" 2>/dev/null || true
  adaptdl cluster down --force --purge >"$ADAPTDL_HOME.log" 2>&1 || cat "$ADAPTDL_HOME.log" >&2
  rm -rf "$ADAPTDL_HOME" "$ADAPTDL_HOME.log" "$ADAPTDL_HOME.json"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# Prints "PHASE REPLICAS" of a job; replicas count once all of them run.
state_of() {
  adaptdl describe "$1" -o json | /usr/bin/python3 -c '
import json, sys
status = json.load(sys.stdin)["job"]["status"]
phase = status["phase"].removeprefix("JOB_PHASE_").lower()
print(phase, len(status.get("allocation", [])) if phase == "running" else 0)'
}

# Shows the jobs whenever one of them changes, until condition $1 holds for job $2, which it must within $3 seconds
# ("never": just for so long).
begin=$SECONDS
shown=
jobs=()
watch_until() {
  local condition=$1 job=$2 deadline=$((SECONDS + $3)) line name phase replicas reached ended
  while true; do
    line=
    reached=
    ended=
    for name in "${jobs[@]}"; do
      read -r phase replicas < <(state_of "$name") || fail "job $name can't be read"
      line+=$(printf '  %s: %-10s %-10s' "$name" "$phase" "$(bar "$replicas")")
      [[ $phase != failed && $phase != cancelled ]] || fail "job $name $phase"
      [[ $name == "$job" ]] || continue
      if "$condition" "$phase" "$replicas"; then reached=1; fi
      if finished "$phase"; then ended=1; fi
    done
    if [[ $line != "$shown" ]]; then
      printf '%5d s %s\n' $((SECONDS - begin)) "$line"
      shown=$line
    fi
    [[ -z $reached ]] || return 0
    # As it was seen above: by now it may have ended, and that may be what is waited for.
    if [[ -n $ended && $condition != never ]]; then
      adaptdl explain "$job" >&2 || true
      fail "job $job has ended before; it did not pay to give it all nodes"
    fi
    if ((SECONDS >= deadline)); then
      [[ $condition != never ]] || return 0
      fail "job $job did not get there in $3 s"
    fi
    sleep 0.5
  done
}
bar() { printf '%*s' "$1" '' | tr ' ' '#'; }
on_all_nodes() { [[ $1 == running && $2 -eq $nodes ]]; }
running() { [[ $1 == running ]]; }
finished() { [[ $1 == succeeded ]]; }
never() { false; }
all_nodes_or_finished() { on_all_nodes "$@" || finished "$@"; }

headline "A cluster on this machine: supervisor, allocator, autoscaler and $nodes nodes of one core each"
adaptdl cluster up --workers "$nodes" --cpus-per-worker 1
adaptdl nodes

dashboard_pid=
if [[ -n $dashboard ]]; then
  headline "Watch it in a browser on this machine"
  # Its URL comes after it could reach the supervisor.
  exec 3< <(exec adaptdl dashboard)
  dashboard_pid=$!
  read -r url <&3 || fail "no dashboard"
  echo "  $url"
fi

headline "Job a: digits, trained by a LibTorch program. It starts on one node, measures itself, and grows over all $nodes"
adaptdl submit --name a --max-replicas "$nodes" -- adaptdl-mnist --epochs "$epochs_a"
jobs=(a)
watch_until on_all_nodes a 120
watch_until never a 12

headline "Job b arrives: a makes room without stopping, both train"
adaptdl submit --name b --max-replicas $((nodes / 2)) -- adaptdl-mnist --epochs "$epochs_b" --seed 1
jobs=(a b)
watch_until running b 60
watch_until running a 60
adaptdl ls
sleep 3  # so that b can tell how fast it is
echo
adaptdl explain a
echo
adaptdl explain b

headline "When b ends, a grows again"
watch_until finished b 240
watch_until all_nodes_or_finished a 120

if [[ -n $pictures ]]; then
  watch_until never a 8
  /usr/bin/python3 "$root/scripts/lib/dashboard_picture.py" job/default/a "$pictures/demo-dashboard.png"
fi

headline "And finishes"
watch_until finished a 400

headline "What they have learnt"
for job in a b; do
  printf '%s: %s\n' "$job" "$(adaptdl logs --rank 0 "$job" | grep -i accuracy | tail -1)"
done

headline "Replicas over time"
adaptdl timeline

if [[ -n $pictures ]]; then
  adaptdl timeline -o json >"$ADAPTDL_HOME.json"
  "$root/scripts/plot-timeline.sh" "$ADAPTDL_HOME.json" "$pictures/demo-timeline.svg" --title "Two jobs share a cluster"
fi

headline "What two more nodes would have brought, by a simulation of these jobs"
echo "RECORDED is what happened; the other columns are simulations of the same jobs, on the cluster as it is, and with the two nodes."
adaptdl what-if --add-nodes 2xcpux1

headline "Where to look next"
cat <<TEXT
  adaptdl cluster up             such a cluster for yourself (programs are in build/release/bin)
  adaptdl events JOB             what happened to a job, when and why
  adaptdl explain JOB            why it has the replicas that it has
  adaptdl what-if --help         what more nodes or another policy would bring
  examples/mnist                 the program, plain and elastic: compare the two
  README.md                      how to write a job, run a cluster and operate it
TEXT

if [[ -n $dashboard ]]; then
  headline "The dashboard goes on until Ctrl-C"
  wait "$dashboard_pid"
fi
