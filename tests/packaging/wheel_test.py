#!/usr/bin/env python3
"""The Python wheel in a fresh Debian without compilers and -dev packages: it installs, says what it lacks,
trains with Debian's PyTorch, alone and with two replicas, and leaves nothing behind.

  wheel_test.py BUILD_DIR VERSION
"""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from debian_root import ROOT, DebianRoot, enter_namespaces, say  # noqa: E402

PYTHON = "/root/venv/bin/python"
PROGRAM = ("/root/python-mnist/mnist.py", "--samples", "1500", "--epochs", "3", "--max-batch-size", "0",
           "--batch-size", "16")
ACCURACY = re.compile(r"epoch 2: test accuracy: ([\d.]+) %")
TIMEOUT = 100


def expect(what, holds, otherwise=""):
    if not holds:
        raise SystemExit(f"not so: {what}\n{otherwise}")


def make_wheel(build, version, output):
    shutil.rmtree(output, ignore_errors=True)
    subprocess.run([ROOT / "scripts/package-python.sh", "--build-dir", build, "--output", output], check=True)
    wheels = list(output.iterdir())
    expect("there is one wheel of the project's version, for all Pythons", len(wheels) == 1 and re.fullmatch(
        rf"adaptdl_elastic-{re.escape(version)}-py3-none-manylinux_2_\d+_\w+\.whl", wheels[0].name), wheels)
    return wheels[0]


def report(debian, succeeds=True):
    """What `python -m adaptdl` found."""
    return json.loads(debian.run(PYTHON, "-m", "adaptdl", "--json", succeeds=succeeds))


def install(debian, wheel):
    """Before PyTorch is there."""
    debian.install("python3-venv")
    debian.run("python3", "-m", "venv", "--system-site-packages", "/root/venv")
    debian.run(PYTHON, "-m", "pip", "install", "--no-index", debian.put(wheel))
    found = report(debian, succeeds=False)
    expect("all that is missing is PyTorch",
           len(found["problems"]) == 1 and "PyTorch" in found["problems"][0], found)
    licences = debian.run("sh", "-c", "ls /root/venv/lib/python3*/site-packages/adaptdl_elastic-*/licenses")
    expect("its licences are there", "bundled-libraries.txt" in licences, licences)


def nothing_is_built_here(debian):
    """Else this test would not show what it says."""
    packages = debian.run("dpkg-query", "-W", "-f", "${Package}\n").split()
    expect("there is no -dev package", not [name for name in packages if name.endswith("-dev")], packages)
    for compiler in ("cc", "gcc", "g++", "c++", "clang", "cmake", "ninja"):
        expect(f"there is no {compiler}", not debian.has(f"/usr/bin/{compiler}"))
    for library in ("libgrpc", "libnlopt"):
        expect(f"the system has no {library}",
               not [name for name in packages if name.startswith(library)], packages)


def environment(rank=0, replicas=1, port=0):
    group = {"ADAPTDL_NUM_REPLICAS": str(replicas), "ADAPTDL_REPLICA_RANK": str(rank),
             "ADAPTDL_MASTER_PORT": str(port)}
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "OMP_NUM_THREADS": "1",
            **(group if replicas > 1 else {})}


def start(debian, rank=0, replicas=1, port=0):
    return subprocess.Popen(["chroot", debian.folder, PYTHON, *PROGRAM], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=environment(rank, replicas, port))


def finish(processes):
    """What each of them wrote."""
    outputs = [process.communicate(timeout=TIMEOUT)[0] for process in processes]
    for process, output in zip(processes, outputs):
        expect("a replica ends well", process.returncode == 0, output)
    return outputs


def has_learnt(output):
    accuracy = ACCURACY.search(output)
    expect("the program learns its digits", accuracy is not None and float(accuracy[1]) > 80, output)
    return accuracy[1]


def trains(debian):
    shutil.copytree(ROOT / "examples/python-mnist", debian.folder / "root/python-mnist")
    found = report(debian)
    expect("PyTorch is Debian's, and supported", found["torch"]["supported"] and not found["problems"], found)
    [output] = finish([start(debian)])
    say(f"alone it learns {has_learnt(output)} %")
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        port = any_socket.getsockname()[1]
    outputs = finish([start(debian, rank, 2, port) for rank in range(2)])
    expect("there are two replicas", "with 2 replicas" in outputs[0], outputs)
    say(f"with two replicas it learns {has_learnt(outputs[0])} %")
    expect("rank 0 alone reports", ACCURACY.search(outputs[1]) is None, outputs[1])


def removes(debian):
    debian.run(PYTHON, "-m", "pip", "uninstall", "--yes", "adaptdl-elastic")
    rest = debian.run("sh", "-c", "find /root/venv -name '*adaptdl*'")
    expect("nothing of it is left", not rest, rest)


def main():
    enter_namespaces()
    build, version = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    work = build / "tests/packaging-wheel"
    work.mkdir(parents=True, exist_ok=True)
    wheel = make_wheel(build, version, work / "wheel")
    debian = DebianRoot(work / "root", in_memory=True)
    install(debian, wheel)
    say("installing Debian's PyTorch")
    debian.install("python3-torch", "libopenblas0-pthread")
    nothing_is_built_here(debian)
    trains(debian)
    removes(debian)
    debian.remove()
    print(f"the wheel is fine: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
