"""The volumes of a pod: folders on this machine, which containers see where they mount them."""

import dataclasses
import os
import pathlib
import shutil
import subprocess

from . import fit
from .environment import Missing


@dataclasses.dataclass(frozen=True)
class Mount:
    source: str
    target: str
    read_only: bool


class Volumes:
    """Of one pod. `folder` is its own."""

    def __init__(self, pod, folder, objects, environment, claims):
        self._pod, self._folder = pod, pathlib.Path(folder)
        self._objects, self._environment, self._claims = objects, environment, claims
        self._paths = {}
        self._mounted = []

    def make(self):
        """Raises Missing, and may be asked again."""
        for volume in self._pod["spec"].get("volumes") or ():
            if volume["name"] not in self._paths:
                self._paths[volume["name"]] = self._make(volume)

    def remove(self):
        for path in self._mounted:
            subprocess.run(["umount", "--lazy", path], check=True)
        self._claims.release(self._pod["metadata"]["uid"])
        shutil.rmtree(self._folder, ignore_errors=True)

    def mounts_of(self, container):
        return [self._mount(mount) for mount in container.get("volumeMounts") or ()]

    @staticmethod
    def message_mount(container, file):
        """Where the container leaves its last words."""
        path = container.spec.get("terminationMessagePath") or "/dev/termination-log"
        return [Mount(str(file), path, False)]

    def _mount(self, mount):
        path = self._paths.get(mount["name"])
        if path is None:
            raise Missing(f"volume {mount['name']} not found")
        sub_path = mount.get("subPath", "")
        if sub_path:
            if os.path.isabs(sub_path) or ".." in pathlib.PurePath(sub_path).parts:
                raise Missing(f"subPath {sub_path}: it is to be inside of the volume")
            path = path / sub_path
            if not path.exists():
                path.mkdir(parents=True)
        is_fixed = any(name in volume for volume in self._pod["spec"]["volumes"]
                       if volume["name"] == mount["name"]
                       for name in ("configMap", "secret", "projected", "downwardAPI"))
        return Mount(str(path), mount["mountPath"], bool(mount.get("readOnly")) or is_fixed)

    def _make(self, volume):
        folder = self._folder / volume["name"]
        if "hostPath" in volume:
            return self._host_path(volume["hostPath"])
        if "persistentVolumeClaim" in volume:
            claim = self._objects.claim(volume["persistentVolumeClaim"]["claimName"])
            return self._claims.use(claim, self._pod["metadata"]["uid"], self._pod["spec"]["nodeName"])
        folder.mkdir(parents=True, exist_ok=True)
        if "emptyDir" in volume:
            if volume["emptyDir"].get("medium") == "Memory":
                self._mount_memory(folder, volume["emptyDir"])
            folder.chmod(0o777)
            return folder
        sources = volume["projected"]["sources"] if "projected" in volume else [volume]
        for source in sources:
            self._fill(folder, source)
        return folder

    def _mount_memory(self, folder, source):
        limit = source.get("sizeLimit")
        options = ["-o", f"size={int(fit.quantity(limit))}"] if limit else []
        subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(folder)], check=True)
        self._mounted.append(str(folder))

    @staticmethod
    def _host_path(source):
        path = pathlib.Path(source["path"])
        kind = source.get("type", "")
        if kind == "DirectoryOrCreate" or not kind and not path.exists():
            path.mkdir(parents=True, exist_ok=True)
        if kind == "Directory" and not path.is_dir() or kind == "File" and not path.is_file():
            raise Missing(f"hostPath type check failed: {path} is not a {kind.lower()}")
        return path

    def _fill(self, folder, source):
        for kind in ("configMap", "secret"):
            if kind in source:
                self._write_items(folder, kind, source[kind])
        if "serviceAccountToken" in source:
            token = source["serviceAccountToken"]
            self._write(folder, token["path"], self._objects.token(token).encode(), 0o600)
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            if "fieldRef" in item:
                text = self._environment.field(item["fieldRef"]["fieldPath"])
            else:
                text = self._environment.resource(item["resourceFieldRef"])
            self._write(folder, item["path"], text.encode())

    def _write_items(self, folder, kind, source):
        found = self._objects.data(kind, source)
        if found is None:
            return
        items = source.get("items") or [{"key": key, "path": key} for key in found]
        for item in items:
            if item["key"] not in found:
                if source.get("optional"):
                    continue
                raise Missing(f"references non-existent {kind.lower()} key: {item['key']}")
            self._write(folder, item["path"], found[item["key"]],
                        item.get("mode", source.get("defaultMode", 0o644)))

    @staticmethod
    def _write(folder, path, data, mode=0o644):
        file = folder / path
        if os.path.isabs(path) or ".." in pathlib.PurePath(path).parts:
            raise Missing(f"path {path}: it is to be inside of the volume")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(mode)
