#!/usr/bin/env python3
"""docker-compose.yml and docker-compose.gpu.yml on top of it are files that Compose takes, and the second changes no more
than it should: the image of all services, and what a node with GPUs has. No GPU belongs to two nodes. Needs no engine."""

import os
import pathlib
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE, GPU = "docker-compose.yml", "docker-compose.gpu.yml"
# What may differ between the two; everything else, such as read_only and cap_drop, is the same.
OF_THE_IMAGE = {"image", "build"}
NOT_OURS = {"prometheus", "grafana"}
OF_A_NODE = {"deploy", "environment", "shm_size"}


def client():
    for command in (["docker", "compose"], ["docker-compose"]):
        try:
            if subprocess.run([*command, "version"], capture_output=True, check=False).returncode == 0:
                return command
        except FileNotFoundError:
            pass
    return None


def plain(service):
    """docker-compose 1.29 writes some of what it has merged in another way than what it has not."""
    same = dict(service, networks=sorted(service.get("networks", [])))
    same["volumes"] = sorted(v.removesuffix(":rw") if isinstance(v, str) else str(v) for v in service.get("volumes", []))
    return same


def services(compose, *files):
    names = [argument for file in files for argument in ("-f", file)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ADAPTDL_", "COMPOSE_"))}
    printed = subprocess.run([*compose, *names, "config"], cwd=ROOT, env=clean, stdout=subprocess.PIPE, text=True, check=True)
    return {name: plain(service) for name, service in yaml.safe_load(printed.stdout)["services"].items()}


def devices(service):
    return service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])


def changes(base, gpu):
    for name in base.keys() | gpu.keys():
        before, after = base.get(name, {}), gpu.get(name, {})
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        allowed = OF_THE_IMAGE | (OF_A_NODE if devices(after) else set())
        if changed - allowed:
            yield f"{name}: {', '.join(sorted(changed - allowed))} is not as in {BASE}"
        if (before.get("image") == after.get("image")) != (name in NOT_OURS):
            yield f"{name}: has the image {after.get('image')}"
        dockerfile = after.get("build", {}).get("dockerfile")
        if dockerfile and not (ROOT / dockerfile).is_file():
            yield f"{name}: is built by {dockerfile}, which does not exist"


def claims(gpu):
    owner = {}
    for name, service in gpu.items():
        if not devices(service):
            continue
        if not name.startswith("worker-"):
            yield f"{name}: has GPUs, but is no node"
        if service.get("shm_size") is None:
            yield f"{name}: has 64 MB of shared memory, too little for NCCL"
        if service.get("environment", {}).get("ADAPTDL_SERVER_CPUS"):
            yield f"{name}: offers as many cores as one without GPUs"
        for device in devices(service):
            if device.get("driver") != "nvidia" or "gpu" not in device.get("capabilities", []):
                yield f"{name}: its devices are not NVIDIA's GPUs"
            if device.get("count") not in (None, "all", -1):
                yield f"{name}: a count names the first GPUs, which another node may have too"
            for gpu_id in device.get("device_ids", ["all"]):
                for other in (owner if gpu_id == "all" else owner.keys() & {"all", gpu_id}):
                    yield f"{name}: its GPU {gpu_id} is {owner[other]}'s too"
                owner[gpu_id] = name
    if not owner:
        yield "no node has GPUs"


def main():
    compose = client()
    if compose is None:
        print("SKIPPED: there is no Docker Compose", file=sys.stderr)
        return 77
    base, gpu = services(compose, BASE), services(compose, BASE, GPU)
    failures = [*changes(base, gpu), *claims(gpu)]
    if any(devices(service) for service in base.values()):
        failures.append(f"{BASE} asks for GPUs")
    print("\n".join(failures) if failures else f"{len(gpu)} services are fine")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
