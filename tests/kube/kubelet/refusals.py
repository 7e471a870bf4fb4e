"""What this double can't do. A pod that asks for it fails at once and says why; it is never run as if it had not asked."""

from . import neighbours

VOLUMES = ("emptyDir", "hostPath", "configMap", "secret", "projected", "downwardAPI", "persistentVolumeClaim")
PROJECTED = ("serviceAccountToken", "configMap", "secret", "downwardAPI")
CONTAINER = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "volumeDevices", "tty", "stdin")
POD = ("shareProcessNamespace", "hostPID", "hostIPC", "hostUsers", "ephemeralContainers", "runtimeClassName",
       "resourceClaims", "activeDeadlineSeconds")
# Of security contexts: processes are root, with all that root may, as images of root have it.
SECURITY = ("fsGroup", "supplementalGroups", "sysctls", "seLinuxOptions", "windowsOptions")


def lacking(pod):
    """Why the pod can't be run here; "": it can."""
    spec = pod["spec"]
    if neighbours.lacking(pod):
        return neighbours.lacking(pod)
    if spec.get("restartPolicy", "Always") != "Never":
        return f"restartPolicy {spec.get('restartPolicy', 'Always')}: only Never"
    for field in POD:
        if spec.get(field):
            return f"spec.{field}"
    context = spec.get("securityContext") or {}
    for field in SECURITY:
        if context.get(field):
            return f"spec.securityContext.{field}"
    if context.get("runAsUser"):
        return "spec.securityContext.runAsUser other than 0"
    for volume in spec.get("volumes") or ():
        reason = _lacking_volume(volume)
        if reason:
            return f"volume {volume['name']}: {reason}"
    for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
        reason = _lacking_container(container)
        if reason:
            return f"container {container['name']}: {reason}"
    return ""


def _lacking_volume(volume):
    kinds = [name for name in volume if name != "name"]
    if len(kinds) != 1 or kinds[0] not in VOLUMES:
        return f"of kind {', '.join(kinds) or 'none'}"
    if kinds[0] == "hostPath" and volume["hostPath"].get(
            "type", "") not in ("", "Directory", "DirectoryOrCreate", "File"):
        return f"hostPath of type {volume['hostPath']['type']}"
    for source in volume.get("projected", {}).get("sources") or ():
        if any(name not in PROJECTED for name in source):
            return f"projected {', '.join(source)}"
    return ""


def _lacking_container(container):
    for field in CONTAINER:
        if container.get(field):
            return field
    if (container.get("securityContext") or {}).get("runAsUser"):
        return "securityContext.runAsUser other than 0"
    for mount in container.get("volumeMounts") or ():
        for field in ("subPathExpr", "mountPropagation", "recursiveReadOnly"):
            if mount.get(field) not in (None, "", "None", "Disabled"):
                return f"volumeMounts.{field}"
    return ""
