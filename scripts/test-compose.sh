#!/usr/bin/env bash
# Proves docker-compose.yml and the image: builds the image from binaries that are already built, brings the cluster
# up, trains a job to its end, one in Python, and one from a folder of the host, reads the cluster's metrics from Prometheus, and takes everything down.
#
#   scripts/test-compose.sh [--build-dir build/release]
#   scripts/test-compose.sh --from-source                 brings it up as a newcomer does, by "docker compose up --build"
#                                                         from a clean copy of what is committed: half an hour
#
# Uses the Docker engine that runs, else starts a private one (root needed). Images are kept in <build-dir>/compose, so
# that the next run is quicker. Exits with 77 (skipped) where no engine can run.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build_dir=$root/build/release
from_source=
while [[ $# -gt 0 ]]; do
  case $1 in
    --build-dir) build_dir=$(cd "${2:?--build-dir needs a folder}" && pwd); shift ;;
    --from-source) from_source=1 ;;
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    *) echo "compose: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
  esac
  shift
done
store=$build_dir/compose
work=$(mktemp -d)

say() { echo "compose: $*"; }
fail() { echo "compose: error: $*" >&2; exit 1; }

# shellcheck source=scripts/lib/docker-engine.sh
. "$root/scripts/lib/docker-engine.sh"

export COMPOSE_PROJECT_NAME=adaptdl-test-$$
export ADAPTDL_IMAGE=adaptdl:test PROMETHEUS_IMAGE=adaptdl-prometheus:test
export ADAPTDL_PORT='' PROMETHEUS_PORT=''  # any free ones

up=
clean_up() {
  local status=$?
  trap - EXIT
  if [[ -n $up ]]; then
    if [[ $status -ne 0 ]]; then
      compose ps || true
      compose logs --tail 40 || true
    fi
    compose down --volumes --timeout 20 >/dev/null 2>&1 || say "docker compose down failed"
  fi
  engine_down
  rm -rf "$work"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

[[ -x $build_dir/bin/adaptdl ]] || fail "no programs in $build_dir/bin; run scripts/build.sh first"

# Runs "$2..." every second until it succeeds, for at most $1 seconds.
eventually() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < deadline)) || return 1
    sleep 1
  done
}

build=(docker build --quiet)
build_from_programs() {
  local context=$work/context runtime=adaptdl-runtime:test
  mkdir -p "$context/scripts"
  cp "$root/scripts/setup.sh" "$root/scripts/packages.txt" "$context/scripts/"
  local component
  for component in programs python; do
    cmake --install "$build_dir" --prefix "$work/prebuilt" --component "$component" --strip >"$work/install.log" 2>&1 ||
      fail "cmake --install failed; has everything been built? $(tail -4 "$work/install.log")"
  done
  say "building $ADAPTDL_IMAGE from the programs in $build_dir/bin"
  "${build[@]}" --build-arg "BASE_IMAGE=$BASE_IMAGE" --file "$root/deploy/docker/Dockerfile" --target runtime \
    --tag "$runtime" "$context"
  "${build[@]}" --build-arg "RUNTIME_IMAGE=$runtime" --file "$root/deploy/docker/prebuilt.Dockerfile" \
    --tag "$ADAPTDL_IMAGE" "$work/prebuilt"
}

# A clean clone, in $work/source.
get_source() {
  git clone --quiet "$root" "$work/source"
  say "compose will build $ADAPTDL_IMAGE from commit $(git -C "$work/source" rev-parse --short HEAD)"
}

# Whether each container of the cluster runs, and is healthy where it says how to tell, or has done what it had to.
all_healthy() {
  local id state format='{{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{end}}'
  format+='{{if eq .State.Status "exited"}}{{.State.ExitCode}}{{end}}'
  for id in $(compose ps -q); do
    state=$(docker inspect --format "$format" "$id")
    [[ $state == "running healthy" || $state == "running " || $state == "exited 0" ]] || return 1
  done
}

adaptdl() { compose exec -T supervisor adaptdl "$@"; }

# Prints the value of a Prometheus query that gives one number.
query() {
  curl --silent --fail --get "http://$prometheus/api/v1/query" --data-urlencode "query=$1" |
    python3 -c 'import json, sys; r = json.load(sys.stdin)["data"]["result"]; print(r[0]["value"][1] if r else "none")'
}
query_is() { [[ $(query "$1") == "$2" ]]; }

engine_up "$store"
base_image "$store"
export BASE_IMAGE
docker buildx version >/dev/null 2>&1 || export DOCKER_BUILDKIT=0
say "building $PROMETHEUS_IMAGE"
"${build[@]}" --build-arg "BASE_IMAGE=$BASE_IMAGE" --tag "$PROMETHEUS_IMAGE" - <"$root/deploy/docker/prometheus.Dockerfile"
if [[ -n $from_source ]]; then get_source; else build_from_programs; fi

up=1
if [[ -n $from_source ]]; then
  export COMPOSE_FILE=$work/source/docker-compose.yml
  compose up --detach --build
else
  export COMPOSE_FILE=$root/docker-compose.yml
  compose up --detach --no-build
fi
eventually 120 all_healthy || fail "not all services became healthy"
say "all services are healthy"

# From the host: with what docs/security.md says to copy, and not without.
security=/var/lib/adaptdl/security
compose exec -T supervisor cat $security/supervisor/ca.pem >"$work/ca.pem"
(umask 077 && compose exec -T supervisor cat $security/users/admin.token >"$work/token")
from_host() { "$build_dir/bin/adaptdl" --supervisor "$(compose port supervisor 7100)" "$@"; }
from_host nodes --ca "$work/ca.pem" --token-file "$work/token" || fail "the published port does not answer"
if from_host nodes --ca "$work/ca.pem" >"$work/refused" 2>&1; then fail "it answers without a token"; fi
if from_host nodes --insecure --call-timeout 5s >"$work/refused" 2>&1; then fail "it answers in plaintext"; fi
if compose exec -T worker-0 sh -c "ls $security/supervisor/key.pem $security/ca.key" >"$work/refused" 2>&1; then
  fail "a worker can read the keys of others"
fi
say "the published port asks for TLS and a token; workers see no key but their own"
adaptdl submit --name compose-mnist --max-replicas 2 -- adaptdl-mnist --epochs 2
adaptdl wait compose-mnist --timeout 600s || { adaptdl describe compose-mnist; fail "the job did not succeed"; }
adaptdl describe compose-mnist
adaptdl logs compose-mnist | tail -3

compose exec -T worker-0 python3 -m adaptdl || fail "the Python package does not work in the image"
adaptdl submit --name compose-python --max-replicas 2 --wait -- \
  python3 /opt/adaptdl/share/adaptdl/examples/python-mnist/mnist.py --samples 2000 --epochs 2 ||
  { adaptdl describe compose-python; adaptdl logs compose-python; fail "the job in Python did not succeed"; }
adaptdl logs compose-python | grep "epoch 1: test accuracy" || fail "the job in Python did not say what it has learnt"

# From a folder of the host, which no container has; what has changed in it is what runs next.
folder=$work/program
mkdir "$folder"
cp "$root"/examples/python-mnist/*.py "$folder"
submit_folder() {
  cat >"$folder/adaptdljob.yaml" <<END
apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata: {name: $1}
spec:
  maxReplicas: 2
  template:
    spec:
      containers:
      - {name: main, workingDir: ., command: [python3, mnist.py, --samples, "1000", --epochs, "1"]}
END
  from_host submit "$folder" --wait --ca "$work/ca.pem" --token-file "$work/token" ||
    { adaptdl describe "$1"; adaptdl logs "$1"; fail "the folder's job did not succeed"; }
}
submit_folder compose-folder
adaptdl logs compose-folder | grep "epoch 0: test accuracy" || fail "the folder's job did not say what it has learnt"
echo 'print("this is the changed one", flush=True)' >>"$folder/mnist.py"
submit_folder compose-changed
adaptdl logs compose-changed | grep "this is the changed one" || fail "the folder's job ran what the folder had before"
say "a folder of the host travels to the workers"

prometheus=$(compose port prometheus 9090)
eventually 60 query_is 'sum(up{job="adaptdl"})' 5 || fail "Prometheus does not reach all five services"
eventually 30 query_is 'sum(adaptdl_supervisor_jobs{phase="JOB_PHASE_SUCCEEDED"})' 4 || fail "Prometheus does not know the finished jobs"
eventually 30 query_is 'count(adaptdl_job_phase{phase="SUCCEEDED",job="compose-folder"})' 1 || fail "Prometheus does not get the series of jobs"
say "Prometheus scrapes 5 services, counts 4 finished jobs, and has the series of each"
say "passed"
