"""Persistent volume claims: a folder each. Of storage class "shared" many nodes may use one at a time."""

import pathlib
import shutil
import threading

from .environment import Missing

SHARED = "shared"
ONE_NODE = "ReadWriteOnce"


def why_unbound(claim):
    spec = claim["spec"]
    if spec.get("volumeMode", "Filesystem") != "Filesystem":
        return "of volumes, this double has file systems only"
    if "ReadWriteOncePod" in spec["accessModes"]:
        return "of access modes, this double has not ReadWriteOncePod"
    if spec["accessModes"] != [ONE_NODE] and spec.get("storageClassName") != SHARED:
        return f'only the storage class "{SHARED}" has other access modes than {ONE_NODE}'
    return ""


class Claims:
    """Thread-safe."""

    def __init__(self, client, root):
        self._client, self._root = client, pathlib.Path(root)
        self._lock = threading.Lock()
        # By uid: who uses it, {pod uid: node}.
        self._users = {}

    def changed(self, claim):
        """Binds it, if that can be."""
        if (claim.get("status") or {}).get("phase") == "Bound" or why_unbound(claim):
            return
        metadata = claim["metadata"]
        status = {
            "phase": "Bound",
            "accessModes": claim["spec"]["accessModes"],
            "capacity": (claim["spec"].get("resources") or {}).get("requests") or {}
        }
        self._client.patch_status(
            f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}", status)

    def gone(self, claim):
        shutil.rmtree(self._folder(claim), ignore_errors=True)

    def use(self, claim, pod_uid, node):
        """Its folder, until the pod releases it."""
        name = claim["metadata"]["name"]
        reason = why_unbound(claim)
        if reason:
            raise Missing(f'persistentvolumeclaim "{name}" is not bound: {reason}')
        with self._lock:
            users = self._users.setdefault(claim["metadata"]["uid"], {})
            if claim["spec"]["accessModes"] == [ONE_NODE] and any(other != node for other in users.values()):
                raise Missing(f'Multi-Attach error for volume "{name}": it is in use on another node')
            users[pod_uid] = node
        folder = self._folder(claim)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def release(self, pod_uid):
        with self._lock:
            for users in self._users.values():
                users.pop(pod_uid, None)

    def _folder(self, claim):
        return self._root / claim["metadata"]["uid"]
