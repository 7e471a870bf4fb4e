#!/usr/bin/env bash
# Proves that a cluster of the last version can be upgraded while a job runs: starts its programs, then replaces the
# supervisor, the allocator and the worker by those of this version, one after the other, on the same state. After each
# step the job must go on and another one must start.
#
#   scripts/test-upgrade.sh [--build-dir build/release] [VERSION]
#
# VERSION: the tag or commit to come from; default: the one that scripts/lib/released names. It is built in a worktree,
# build/upgrade/VERSION, which stays for the next run. This version's programs are built as well, unless --build-dir
# names where they are.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build_dir=
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'
  exit 0
fi
if [[ ${1:-} == --build-dir ]]; then
  build_dir=$(cd "${2:?--build-dir needs a folder}" && pwd)
  shift 2
fi
version=${1:-$(sed '/^#/d' "$root/scripts/lib/released")}
tree=$root/build/upgrade/$version
work=$(mktemp -d)
programs=(adaptdl-supervisor adaptdl-allocator adaptdl-worker adaptdl-shim)

say() { echo "upgrade: $*"; }
fail() {
  echo "upgrade: error: $*" >&2
  tail -n 20 "$work"/*.log >&2 || true
  exit 1
}

declare -A pids=()
clean_up() {
  trap - EXIT
  kill -9 "${pids[@]}" 2>/dev/null || true
  touch "$work/finish"
  sleep 0.5  # jobs that still run see it
  rm -rf "$work"
}
trap clean_up EXIT

build_old() {
  git -C "$root" cat-file -e "$version^{commit}" 2>/dev/null ||
    fail "this repository has no version $version; get its whole history, or name another one"
  [[ -d $tree ]] || git -C "$root" worktree add --detach "$tree" "$version"
  export CCACHE_BASEDIR=$tree CCACHE_NOHASHDIR=1  # finds what another clone has compiled already
  (cd "$tree" && cmake --preset release >"$work/cmake.log" && cmake --build build/release --target "${programs[@]}")
}

# Versions differ in what they ask for: plaintext, and replicas as the worker's own user, where there is a choice.
choices() {
  local help
  help=$("$1" --help 2>&1)
  if [[ $help == *--insecure* ]]; then echo --insecure; fi
  if [[ $help == *--replica-user* ]]; then echo --replica-user=self; fi
}

# start NAME PROGRAM ARGS...: at the address that NAME had before, if it had one.
start() {
  local name=$1 program=$2 address
  shift 2
  address=$(cat "$work/$name.kept" 2>/dev/null || echo 127.0.0.1:0)
  rm -f "$work/$name.address"
  # shellcheck disable=SC2046  # words, or none
  "$program" $(choices "$program") --listen "$address" --metrics-listen 127.0.0.1:0 --address-file \
    "$work/$name.address" "$@" >>"$work/$name.log" 2>&1 &
  pids[$name]=$!
  await "$name listens" test -s "$work/$name.address"
  cp "$work/$name.address" "$work/$name.kept"
}

# stop NAME [CODE]: CODE is right as well.
stop() {
  local code=0
  kill -TERM "${pids[$1]}"
  wait "${pids[$1]}" || code=$?
  [[ $code -eq 0 || $code == "${2:-}" ]] || fail "$1 ended with $code"
}

# await WHAT COMMAND...: until the command succeeds.
await() {
  local what=$1 attempt
  shift
  for ((attempt = 0; attempt < 600; ++attempt)); do
    if "$@"; then return; fi
    sleep 0.1
  done
  fail "not within a minute: $what"
}

adaptdl() {
  "$build_dir/bin/adaptdl" --insecure --supervisor "$(cat "$work/supervisor.kept")" "$@"
}

# Counts in $work/NAME.<process id> until it may end.
submit() {
  # shellcheck disable=SC2016  # the job's shell expands it
  adaptdl submit --name "$1" --cpus 1 --max-restarts 0 --workdir "$work" -- \
    sh -c 'i=0; while [ ! -e finish ]; do i=$((i + 1)); echo $i >>"$0.$$"; sleep 0.1; done' "$1" >/dev/null
}

steps() { cat "$work/$1".[0-9]* 2>/dev/null | wc -l; }
beyond() { [[ $(steps "$1") -gt $2 ]]; }
goes_on() {
  local before
  before=$(steps job-0)
  await "the job goes on ($1)" beyond job-0 $((before + 20))
}

if [[ -z $build_dir ]]; then
  "$root/scripts/build.sh" adaptdl "${programs[@]}"
  build_dir=$root/build/release
fi
[[ -x $build_dir/bin/adaptdl-supervisor ]] || fail "$build_dir holds no programs; build first"
say "building $version"
build_old
old=$tree/build/release/bin
new=$build_dir/bin

state=(--state-dir "$work/supervisor")
start supervisor "$old/adaptdl-supervisor" "${state[@]}"
supervisor=(--supervisor "$(cat "$work/supervisor.kept")")
node=("${supervisor[@]}" --node-id node --state-dir "$work/node" --cpus 8 --gpus 0)
start allocator "$old/adaptdl-allocator" "${supervisor[@]}"
start worker "$old/adaptdl-worker" "${node[@]}"
submit job-0
await "the job starts" beyond job-0 0
say "$version runs a job"

number=0
# replaced NAME: after its replacement.
replaced() {
  goes_on "after the $1"
  submit "job-$((++number))"
  await "a job starts after the $1" beyond "job-$number" 0
  say "replaced the $1; the job goes on, and another one started"
}

stop supervisor
start supervisor "$new/adaptdl-supervisor" "${state[@]}"
replaced supervisor
stop allocator 143  # that of 0.1.0 does not end in order
start allocator "$new/adaptdl-allocator" "${supervisor[@]}"
replaced allocator
stop worker
start worker "$new/adaptdl-worker" "${node[@]}"
replaced worker

touch "$work/finish"
for ((i = 0; i <= number; ++i)); do
  adaptdl wait "job-$i" --timeout 60s >/dev/null || fail "job-$i did not succeed"
  files=("$work/job-$i".[0-9]*)
  [[ ${#files[@]} -eq 1 ]] || fail "job-$i had ${#files[@]} processes"
  diff -q <(seq "$(steps "job-$i")") "${files[0]}" >/dev/null || fail "job-$i did not count step by step"
done
for name in worker allocator supervisor; do stop "$name"; done
say "done: $((number + 1)) jobs, each one process from start to end"
