#!/usr/bin/env bash
# Runs the conformance suite of tests/kube: against the cluster that KUBECONFIG names, or else against the double of an API server that
# our tests use. So the double is known to do what a cluster does. No kubelet and no node are needed; on a cluster, namespaces and CRDs
# of random names are made and deleted, and whoever KUBECONFIG names must be allowed to.
#
#   KUBECONFIG=~/.kube/config scripts/test-kubernetes.sh
#   scripts/test-kubernetes.sh test_apply          only this part
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac
server=()
if [[ -n ${KUBECONFIG:-} ]]; then
  command -v kubectl >/dev/null || { echo "test-kubernetes: error: kubectl is needed to reach the cluster" >&2; exit 1; }
  server=(--cluster)
  echo "test-kubernetes: $(kubectl version 2>/dev/null | grep -i server)"
fi
exec python3 "$root/tests/kube/conformance/run.py" "${server[@]}" "$@"
