#!/usr/bin/env bash
# Runs the conformance suite of tests/kube: against the cluster that KUBECONFIG names, or else against the doubles of an API server and of
# kubelets that our tests use. So the doubles are known to do what a cluster does. Where no node is ready, tests of pods that run are left
# out; on a cluster, namespaces and CRDs of random names are made and deleted, and whoever KUBECONFIG names must be allowed to. Pods run
# ADAPTDL_CONFORMANCE_IMAGE (busybox:1.36) and ADAPTDL_CONFORMANCE_PYTHON_IMAGE (python:3.11-slim). The double runs them only as root with
# CAP_SYS_ADMIN.
#
#   KUBECONFIG=~/.kube/config scripts/test-kubernetes.sh
#   scripts/test-kubernetes.sh test_apply          only this part
#
# With --faults it runs instead, against the doubles, the operator with jobs that train while it is killed at every step of a re-scale,
# stands still at every step, is without an API server for a minute, and so on, a quarter of an hour; tests have a part of that.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
  --faults)
    cd "$root"
    tests=(faults rescale_points two_operators)
    tests=("${tests[@]/#/integration_kubernetes_}")
    tests=("${tests[@]/%/_test}")
    scripts/build.sh "${tests[@]}"
    for test in "${tests[@]}"; do ADAPTDL_FAULTS=all "build/release/tests/$test"; done
    exit 0 ;;
esac
server=()
if [[ -n ${KUBECONFIG:-} ]]; then
  command -v kubectl >/dev/null || { echo "test-kubernetes: error: kubectl is needed to reach the cluster" >&2; exit 1; }
  server=(--cluster)
  echo "test-kubernetes: $(kubectl version 2>/dev/null | grep -i server)"
fi
exec python3 "$root/tests/kube/conformance/run.py" "${server[@]}" "$@"
