#!/usr/bin/env python3
"""Checks rendered Kubernetes manifests: each object against the strict schemas of the oldest and the newest Kubernetes
that deploy/kubernetes supports, and what schemas can't say: references between objects, and the rules that every pod
of ours keeps (restricted security context, probes, requests)."""

import sys

import kubernetes_validate
import yaml

VERSIONS = ["1.27", "1.35"]


def name_of(item):
    return f'{item["kind"]}/{item["metadata"]["name"]}'


def schema_problems(item):
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(item, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f'Kubernetes {version}: {".".join(str(p) for p in error.path)}: {error.message}'


def matches(selector, labels):
    return selector and all(labels.get(key) == value for key, value in selector.items())


def container_problems(container):
    security = container.get("securityContext", {})
    if security.get("allowPrivilegeEscalation") is not False:
        yield "allows privilege escalation"
    if security.get("readOnlyRootFilesystem") is not True:
        yield "can write to its root file system"
    if security.get("capabilities", {}).get("drop") != ["ALL"]:
        yield "keeps capabilities"
    for probe in ("readinessProbe", "livenessProbe"):
        command = container.get(probe, {}).get("exec", {}).get("command", [])
        if command[:2] != ["adaptdl", "health"] or f'--tls-server-name={container["name"]}.adaptdl' not in command:
            yield f"has no {probe} that asks for its health over TLS"
    if set(container.get("resources", {}).get("requests", {})) != {"cpu", "memory"}:
        yield "does not request cpu and memory"
    if ":" not in container["image"]:
        yield f'has the untagged image {container["image"]}'


def gpu_problems(pod, container):
    """NVIDIA's device plugin hands out GPUs by limits ("nvidia.com/gpu", or "nvidia.com/mig-..." for slices)."""
    gpus = [name for name in container.get("resources", {}).get("limits", {}) if name.startswith("nvidia.com/")]
    if bool(gpus) != container["image"].endswith("cuda"):
        yield f'has {", ".join(gpus) or "no GPU"} and the image {container["image"]}'
    shared = {v["name"] for v in pod.get("volumes", []) if v.get("emptyDir", {}).get("medium") == "Memory"}
    if gpus and not any(m["mountPath"] == "/dev/shm" and m["name"] in shared for m in container.get("volumeMounts", [])):
        yield "has 64 MB of shared memory, too little for NCCL"
    if gpus and not any(t.get("key") == "nvidia.com/gpu" for t in pod.get("tolerations", [])):
        yield "has GPUs, but does not tolerate the taint of nodes that have some"


def secret_problems(pod, container):
    """A container proves who it is by a Secret of its own, and gets no other service's key."""
    secrets = {v["name"]: v["secret"] for v in pod.get("volumes", []) if "secret" in v}
    allowed = {f'adaptdl-{container["name"]}-tls', "adaptdl-tokens"}
    # It starts workers; only who may exec into the supervisor sees the admin's token.
    allowed |= {"autoscaler": {"adaptdl-worker-tls"}, "supervisor": {"adaptdl-admin-token"}}.get(container["name"], set())
    mounted = [m for m in container.get("volumeMounts", []) if m["name"] in secrets]
    names = {secrets[m["name"]]["secretName"] for m in mounted}
    if f'adaptdl-{container["name"]}-tls' not in names:
        yield "has no certificate of its own"
    if names - allowed:
        yield f'is given {", ".join(sorted(names - allowed))}'
    for mount in mounted:
        if mount.get("readOnly") is not True or secrets[mount["name"]].get("defaultMode") != 0o440:
            yield f'mounts {mount["name"]} for more than reading by itself'
    for flag in ("cert", "key", "ca"):
        if not any(arg.startswith(f"--tls-{flag}=/etc/adaptdl/tls/") for arg in container.get("args", [])):
            yield f"has no --tls-{flag}"


def pod_problems(item, claims):
    pod = item["spec"]["template"]["spec"]
    if not matches(item["spec"]["selector"]["matchLabels"], item["spec"]["template"]["metadata"]["labels"]):
        yield "its selector does not match its own pods"
    security = pod.get("securityContext", {})
    if not security.get("runAsNonRoot") or security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "runs as root or without seccomp"
    if pod.get("automountServiceAccountToken") is not False:
        yield "mounts a service account's token that it does not need"
    volumes = {v["name"] for v in pod.get("volumes", [])}
    volumes |= {c["metadata"]["name"] for c in item["spec"].get("volumeClaimTemplates", [])}
    for volume in pod.get("volumes", []):
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim and claim not in claims:
            yield f"uses the claim {claim}, which does not exist"
    for container in pod["containers"]:
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                yield f'mounts {mount["name"]}, which is no volume'
        for problem in [*container_problems(container), *gpu_problems(pod, container), *secret_problems(pod, container)]:
            yield f'container {container["name"]} {problem}'


def problems(items):
    workloads = [i for i in items if i["kind"] in ("Deployment", "StatefulSet")]
    pods = [i["spec"]["template"]["metadata"]["labels"] for i in workloads]
    services = {i["metadata"]["name"] for i in items if i["kind"] == "Service"}
    claims = {i["metadata"]["name"] for i in items if i["kind"] == "PersistentVolumeClaim"}
    if not {"supervisor", "allocator", "autoscaler", "worker"} <= {p["app.kubernetes.io/name"] for p in pods}:
        yield "a service is missing"
    for item in items:
        found = list(schema_problems(item))
        if item["kind"] != "Namespace" and item["metadata"].get("namespace") != "adaptdl":
            found.append("is not in the namespace adaptdl")
        if item in workloads:
            found += pod_problems(item, claims)
        if item["kind"] == "StatefulSet" and item["spec"]["serviceName"] not in services:
            found.append("its serviceName is no service")
        selector = {"Service": lambda s: s.get("selector"),
                    "PodDisruptionBudget": lambda s: s["selector"]["matchLabels"],
                    "NetworkPolicy": lambda s: s["podSelector"]["matchLabels"]}.get(item["kind"])
        if selector and not any(matches(selector(item["spec"]), labels) for labels in pods):
            found.append("selects no pod")
        yield from (f"{name_of(item)}: {problem}" for problem in found)


def main():
    failed = False
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            items = [item for item in yaml.safe_load_all(file) if item]
        found = list(problems(items))
        failed = failed or bool(found)
        print(f"{path}: {len(items)} objects, {len(found)} problems", *found, sep="\n  ")
    return 1 if failed or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
