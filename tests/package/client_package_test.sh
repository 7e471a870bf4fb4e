#!/usr/bin/env bash
# Installs the client library into a folder, builds the example and a program that tries each operation against what lies
# there, and runs them on a cluster of the real programs.
#
#   client_package_test.sh BUILD_DIR       exit code 77: programs are missing
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build_dir=${1:?client_package_test.sh needs the folder of the build}
for program in adaptdl adaptdl-{supervisor,allocator,autoscaler,worker,shim}; do
  [[ -x $build_dir/bin/$program ]] || { echo "$program is not built"; exit 77; }
done
work=$(mktemp -d)
export ADAPTDL_HOME=$work/home
unset ADAPTDL_SUPERVISOR_ADDRESS ADAPTDL_CA_FILE ADAPTDL_TOKEN ADAPTDL_TOKEN_FILE ADAPTDL_TLS_SERVER_NAME ADAPTDL_INSECURE
adaptdl=$build_dir/bin/adaptdl
trap '"$adaptdl" cluster down --force --purge >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

fail() { echo "client_package_test: error: $*" >&2; exit 1; }

cmake --install "$build_dir" --prefix "$work/installed" --component client >"$work/install.log"
# Moved: nothing in it may name the folder it was installed into.
mv "$work/installed" "$work/prefix"
! grep -rIl -e "$work/installed" -e "$here" "$work/prefix" || fail "the package names folders of this machine, see above"
# What it keeps to itself.
foreign=$(nm -D --defined-only --demangle "$work"/prefix/lib/libadaptdl_client.so | grep -E ' adaptdl::(v1|rpc|jobfile)' || true)
[[ -z $foreign ]] || fail "the library shows what is not its own: $foreign"

cmake -S "$here/client" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DEXAMPLE="$here/../../examples/client" -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)" >"$work/cmake.log" ||
  fail "$(cat "$work/cmake.log")"
cmake --build "$work/build"

"$adaptdl" cluster up --workers 1 --port 0
"$work/build/operations"

cat >"$work/job.yaml" <<'END'
apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata: {name: example}
spec:
  maxReplicas: 1
  template:
    spec:
      containers:
      - name: main
        command: [sh, -c, "echo working"]
END
"$work/build/submit_and_follow" "$work/job.yaml" >"$work/output" || fail "the example: $(cat "$work/output")"
cat "$work/output"
for text in "default/example is submitted" "[0] working" " replicas, " "has ended: SUCCEEDED"; do
  grep -qF -- "$text" "$work/output" || fail "the example does not say: $text"
done
