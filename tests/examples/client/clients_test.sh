#!/usr/bin/env bash
# The client examples: short, and able to submit a job, follow it and fetch its result on a real cluster; and the one that
# calls any method by its name.
#
#   clients_test.sh SOURCE_DIR BUILD_DIR          counts lines, then runs both (exit code 77: programs are missing)
set -euo pipefail

source_dir=$1
build_dir=$2
for client in client.cc client.py; do
  lines=$(wc -l <"$source_dir/examples/client/$client")
  ((lines < 80)) || { echo "$client has $lines lines; an example has fewer than 80" >&2; exit 1; }
done

for program in adaptdl adaptdl-client adaptdl-{supervisor,allocator,autoscaler,worker,shim}; do
  [[ -x $build_dir/bin/$program ]] || { echo "$program is not built"; exit 77; }
done
/usr/bin/python3 -c 'import grpc, google.protobuf' || { echo "python3-grpcio is not installed"; exit 77; }

ADAPTDL_HOME=$(mktemp -d "${TMPDIR:-/tmp}/adaptdl-clients.XXXXXX")
export ADAPTDL_HOME
unset ADAPTDL_SUPERVISOR_ADDRESS ADAPTDL_CA_FILE ADAPTDL_TOKEN ADAPTDL_TOKEN_FILE ADAPTDL_INSECURE # they would win
export ADAPTDL_SERVER_REFLECTION=true
adaptdl=$build_dir/bin/adaptdl
trap '"$adaptdl" cluster down --force --purge; rm -rf "$ADAPTDL_HOME"' EXIT

"$adaptdl" cluster up --workers 1 --port 0
address=$("$adaptdl" cluster status -o json |
  /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["services"][0]["address"])')

check() {
  local name=$1 output
  shift
  output=$("$@") || { echo "$name failed: $output" >&2; "$adaptdl" events >&2; exit 1; }
  echo "$output"
  [[ $output == *JOB_PHASE_SUCCEEDED*42 ]] || { echo "$name did not fetch the result" >&2; exit 1; }
}
export ADAPTDL_CA_FILE=$ADAPTDL_HOME/security/ca.pem ADAPTDL_TOKEN_FILE=$ADAPTDL_HOME/security/admin.token
check client.cc "$build_dir/bin/adaptdl-client" "$address"
check client.py env PYTHONPATH="$build_dir/examples/client/python" PYTHONDONTWRITEBYTECODE=1 \
  "$source_dir/examples/client/client.py" "$address"

call=$source_dir/examples/client/call.py
[[ $("$call" "$address") == *adaptdl.v1.JobService/SubmitJob* ]] || { echo "call.py does not list methods" >&2; exit 1; }
[[ $("$call" "$address" adaptdl.v1.JobService/ListJobs '{"phases": ["JOB_PHASE_SUCCEEDED"]}') == *client-py-* ]] ||
  { echo "call.py does not find the job" >&2; exit 1; }
[[ $("$call" "$address" adaptdl.v1.AdminService/WhoAmI) == *'"role": "admin"'* ]] ||
  { echo "call.py is not who the token says" >&2; exit 1; }
expect_complaint() {
  if "$call" "$address" "$@" >/dev/null 2>"$ADAPTDL_HOME/error"; then
    echo "call.py $* ended well" >&2
    exit 1
  fi
  grep -q '^call: ' "$ADAPTDL_HOME/error" || { cat "$ADAPTDL_HOME/error" >&2; exit 1; }
}
expect_complaint adaptdl.v1.JobService/ListJob
expect_complaint adaptdl.v1.JobService/GetJob '{"name": "nobody"}'
expect_complaint adaptdl.v1.JobService/GetJob '{"nam": 1}'
expect_complaint adaptdl.v1.NoService/GetJob

# And with nobody there, all say so.
for client in "$build_dir/bin/adaptdl-client" "$source_dir/examples/client/client.py" "$call"; do
  if PYTHONPATH=$build_dir/examples/client/python "$client" 127.0.0.1:1 >/dev/null 2>"$ADAPTDL_HOME/error"; then
    echo "$client ended well without a supervisor" >&2
    exit 1
  fi
  grep -Eq '^(client|call): ' "$ADAPTDL_HOME/error" || { cat "$ADAPTDL_HOME/error" >&2; exit 1; }
done
