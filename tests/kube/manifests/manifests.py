"""Manifests as objects: what deploy/kubernetes says, and what kubectl makes of it."""

import functools
import pathlib
import subprocess

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
KUBERNETES = ROOT / "deploy/kubernetes"
# Of which no object has a namespace.
CLUSTER_KINDS = {
    "Namespace", "ClusterRole", "ClusterRoleBinding", "PriorityClass", "StorageClass",
    "ValidatingWebhookConfiguration", "CustomResourceDefinition"
}
# Folders that make a whole control plane: the operator's, and those of workers as pods.
OPERATOR = ("base", "overlays/local", "overlays/eks", "overlays/gke")
# Of those, with an autoscaler.
SCALED = ("overlays/eks", "overlays/gke")
AGENTS = ("overlays/agents", "overlays/gpu")


def read(path):
    with open(path, encoding="utf-8") as file:
        return [item for item in yaml.safe_load_all(file) if item]


def folders():
    """All that kubectl can be told to apply."""
    return sorted(str(path.parent.relative_to(KUBERNETES)) for path in KUBERNETES.rglob("kustomization.yaml"))


@functools.cache
def render(folder):
    """The objects of a folder of deploy/kubernetes."""
    done = subprocess.run(["kubectl", "kustomize", str(KUBERNETES / folder)],
                          capture_output=True,
                          text=True,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"kubectl kustomize {folder}: {done.stderr}")
    return tuple(item for item in yaml.safe_load_all(done.stdout) if item)


def name_of(item):
    return f'{item["kind"]}/{item["metadata"]["name"]}'


def of_kind(items, *kinds):
    return [item for item in items if item["kind"] in kinds]


def workloads(items):
    return of_kind(items, "Deployment", "StatefulSet")


def containers(items):
    """Of all workloads: (workload, its pod's specification, container)."""
    for item in workloads(items):
        pod = item["spec"]["template"]["spec"]
        for container in pod["containers"]:
            yield item, pod, container


def matches(selector, labels):
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())
