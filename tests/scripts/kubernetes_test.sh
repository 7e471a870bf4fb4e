#!/usr/bin/env bash
# Renders deploy/kubernetes and holds every object against Kubernetes' schemas; see check_manifests.py.
#
#   kubernetes_test.sh FOLDER     FOLDER keeps the venv with the schemas between runs
#
# Exits with 77 (skipped) where kubectl is missing or the schemas can't be had.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
manifests=$here/../../deploy/kubernetes
rendered=$(mktemp -d)
trap 'rm -rf "$rendered"' EXIT

skip() { echo "SKIPPED: $*" >&2; exit 77; }

command -v kubectl >/dev/null || skip "no kubectl; scripts/setup.sh installs one"
python=$("$here/../venv.sh" "$1/kubernetes-venv" "$here/requirements.txt")

kubectl kustomize "$manifests/base" >"$rendered/base.yaml"
for overlay in "$manifests"/overlays/*/; do
  # Debian's kubectl 1.20 has a kustomize from before "patches" took files.
  if kubectl kustomize "$overlay" >"$rendered/$(basename "$overlay").yaml" 2>"$rendered/error"; then continue; fi
  grep -q 'unknown field "\?patches\|cannot unmarshal object' "$rendered/error" || { cat "$rendered/error"; exit 1; }
  echo "NOT CHECKED: overlay $(basename "$overlay"): this kubectl is too old for it" >&2
  rm -f "$rendered/$(basename "$overlay").yaml"
done
"$python" "$here/check_manifests.py" "$rendered"/*.yaml
