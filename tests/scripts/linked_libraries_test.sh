#!/usr/bin/env bash
# No service and no command links a solver of integer programs: policies that need one are the simulator's alone, and the
# container image has no such library.
#
#   linked_libraries_test.sh FOLDER    where the programs are
set -euo pipefail

bin=$1
failed=0
for program in adaptdl adaptdl-supervisor adaptdl-allocator adaptdl-autoscaler adaptdl-worker adaptdl-shim adaptdl-environment adaptdl-netperf; do
  libraries=$(ldd "$bin/$program")
  if grep -E 'lib(Cbc|Cgl|Clp|Osi|CoinUtils)' <<<"$libraries"; then
    echo "$program links the solver above" >&2
    failed=1
  fi
done
# What the check would find.
grep -q libCbc <<<"$(ldd "$bin/adaptdl-sim")" || { echo "adaptdl-sim links no solver: mend this test" >&2; exit 1; }
exit "$failed"
