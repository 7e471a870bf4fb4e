#!/usr/bin/env bash
# Asks Helm about the chart: lint, and whether it renders, with everything off and on. Tests render it without Helm, which Debian has not:
# tests/kube/manifests.
#
#   scripts/test-helm.sh
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac
command -v helm >/dev/null || { echo "test-helm: error: there is no helm; see https://helm.sh/docs/intro/install" >&2; exit 1; }
chart=$root/deploy/helm/adaptdl
everything=(--set autoscaler.enabled=true --set-string autoscaler.nodeSelector=a=b
  --set docker-registry.enabled=true --set metrics.serviceMonitor.enabled=true
  --set metrics.prometheusRule.enabled=true --set checkpoints.storageClass=efs)
helm lint --strict "$chart"
helm template adaptdl "$chart" --namespace adaptdl --include-crds >/dev/null
helm template adaptdl "$chart" --namespace adaptdl "${everything[@]}" >/dev/null
if helm template adaptdl "$chart" --set no.such=value >/dev/null 2>&1; then
  echo "test-helm: error: a value that does not exist was taken" >&2
  exit 1
fi
echo "test-helm: the chart is fine"
