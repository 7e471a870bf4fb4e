#!/usr/bin/env bash
# Installs the training library into a folder, and builds and runs a program against what lies there.
#
#   package_test.sh BUILD_DIR
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build_dir=${1:?package_test.sh needs the folder of the build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "package_test: error: $*" >&2; exit 1; }

cmake --install "$build_dir" --prefix "$work/installed" --component training >"$work/install.log"
# Moved: nothing in it may name the folder it was installed into.
mv "$work/installed" "$work/prefix"
! grep -rIl -e "$work/installed" -e "$here" "$work/prefix" || fail "the package names folders of this machine, see above"

cmake -S "$here" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)"
cmake --build "$work/build"

# Two replicas.
export ADAPTDL_NUM_REPLICAS=2 OMP_NUM_THREADS=1
ADAPTDL_MASTER_PORT=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export ADAPTDL_MASTER_PORT
ADAPTDL_REPLICA_RANK=1 timeout 60 "$work/build/train" >"$work/1.log" 2>&1 &
ADAPTDL_REPLICA_RANK=0 timeout 60 "$work/build/train" >"$work/0.log" 2>&1 || fail "rank 0: $(cat "$work/0.log")"
wait $! || fail "rank 1: $(cat "$work/1.log")"
cat "$work/0.log"
grep -q "slope 3.00, intercept 1.00" "$work/0.log" || fail "it has not learnt the line"

# And gRPC's, which a supervisor's address asks for; nobody answers there.
status=0
ADAPTDL_NUM_REPLICAS=1 ADAPTDL_REPLICA_RANK=0 ADAPTDL_SUPERVISOR_ADDRESS=127.0.0.1:1 ADAPTDL_CONTROL_LIBRARY='' \
  ADAPTDL_JOB_ID=default/none ADAPTDL_REPLICA_ID=none ADAPTDL_GROUP=1 ADAPTDL_GROUP_TOKEN=none \
  timeout 5 "$work/build/train" >"$work/control.log" 2>&1 || status=$?
! grep "cannot open libadaptdl_control" "$work/control.log" || fail "the control library was not found"
[[ $status -ne 0 ]] || fail "it trained without its supervisor"
