#!/usr/bin/env python3
"""Folders that travel with their jobs to nodes that share none with the user.

    code_acceptance_test.py BUILD_FOLDER [--files N] [--mebibytes M]     how large the large one is
"""

import argparse
import pathlib
import random
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cluster import Cluster  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]

# The hello world of AdaptDL's documents: the program is a file of the image.
HELLO = {
    "hello_world.py": """\
import os

print("Hello, world!")
with open(os.path.join(os.environ["ADAPTDL_SHARE_PATH"], "foo.txt"), "w") as f:
    f.write("Hello, world!")
""",
    "Dockerfile": "FROM python:3.7-slim\nRUN python3 -m pip install adaptdl\n\nCOPY hello_world.py /root/hello_world.py\n",
    "adaptdljob.yaml": """\
apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata:
  generateName: hello-world-
spec:
  template:
    spec:
      containers:
      - name: main
        command:
        - python3
        - /root/hello_world.py
""",
}

# Says what of the folder has come.
COUNT = """\
import os

files = size = 0
for folder, _, names in os.walk("data"):
    files += len(names)
    size += sum(os.path.getsize(os.path.join(folder, name)) for name in names)
print("files", files, "bytes", size)
open("data/written-here", "w").close()  # the copy is the job's own
"""
COUNT_JOB = HELLO["adaptdljob.yaml"].replace("/root/hello_world.py", "count.py").replace("hello-world-", "large-") \
    .replace("spec:\n  template", "spec:\n  maxReplicas: 1\n  template", 1)


def expect(text, output):
    if text not in output:
        raise AssertionError(f"{text!r} is not in: {output}")


def write(folder, files):
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)


def trains(cluster):
    """A program of a folder learns; what is changed is what runs next."""
    folder = cluster.user / "digits"
    shutil.copytree(ROOT / "examples/python-mnist", folder, ignore=shutil.ignore_patterns("__pycache__"))
    words = ["digits", "--", "--epochs", "1", "--samples", "600"]
    first = cluster.submit(*words)
    expect("epoch 0: test accuracy", cluster.result(first))
    program = folder / "mnist.py"
    program.write_text(program.read_text().replace("test accuracy", "changed accuracy"))
    second = cluster.submit(*words)
    expect("epoch 0: changed accuracy", cluster.result(second))
    expect("epoch 0: test accuracy", cluster.adaptdl("logs", first))
    # The first one's text again is no other archive.
    program.write_text(program.read_text().replace("changed accuracy", "test accuracy"))
    third = cluster.submit(*words)
    digests = [cluster.job(job)["spec"]["template"]["code"]["digest"] for job in (first, second, third)]
    assert digests[0] == digests[2] != digests[1], digests


def says_hello(cluster):
    """AdaptDL's own tutorial, word by word."""
    write(cluster.user / "hello_world", HELLO)
    output = cluster.adaptdl("submit", "hello_world")
    expect("/root/hello_world.py as hello_world.py", output)
    name = output.split("job ")[-1].split(" submitted")[0]
    expect("Hello, world!", cluster.result(name))
    cluster.adaptdl("cp", f"{name}:/adaptdl/share/foo.txt", "foo.txt")
    expect("Hello, world!", (cluster.user / "foo.txt").read_text())


def make_large(folder, files, size):
    """Files of random bytes: what compression makes smaller would not be seen to be sent."""
    write(folder, {"count.py": COUNT, "adaptdljob.yaml": COUNT_JOB, ".gitignore": "*.log\n"})
    source = random.Random(1)
    each = size // files
    for number in range(files):
        path = folder / f"data/{number // 1000}/{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.randbytes(each))
        if number % 1000 == 0:
            (path.parent / "left-out.log").write_text("x")
    return each * files


def is_large(cluster, files, size):
    """The connection is cut, and the supervisor killed, when half of it is there."""
    folder = cluster.user / "large"
    size = make_large(folder, files, size)
    cluster.way.sent = 0
    cluster.way.on_cut = cluster.restart_supervisor
    cluster.way.cut_after = size // 2
    begin = time.monotonic()
    job = cluster.submit("large")
    submitted = time.monotonic()
    assert cluster.way.cut_after is None, "the connection was not cut"
    assert cluster.way.sent < size * 1.4, f"{cluster.way.sent} bytes were sent for {size}"
    expect(f"files {files} bytes {size}", cluster.result(job))
    ended = time.monotonic()
    # Nothing of it has to go anywhere again, and no job has written into another one's copy.
    cluster.way.sent = 0
    job = cluster.submit("large", "-n", "again")
    again = time.monotonic()
    assert cluster.way.sent < 1 << 20, f"{cluster.way.sent} bytes were sent again"
    expect(f"files {files} bytes {size}", cluster.result(job))
    print(f"{files} files, {size / 2**20:.0f} MiB: packed and uploaded in {submitted - begin:.1f} s (with a cut and a new "
          f"supervisor), run {ended - submitted:.1f} s later; another time {again - ended:.1f} s and "
          f"{time.monotonic() - again:.1f} s", flush=True)


def is_refused(cluster):
    """A link that leads out, and a folder that is too large: by name."""
    folder = cluster.user / "hello_world"
    (folder / "away").symlink_to("/etc/passwd")
    expect('"away" is a symbolic link to "/etc/passwd"', cluster.adaptdl("submit", "hello_world", check=False))
    (folder / "away").unlink()
    expect('"data/"', cluster.adaptdl("submit", "large", "--max-code-files", "100", check=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--mebibytes", type=int, default=32)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="adaptdl-code-") as folder:
        cluster = Cluster(arguments.build.resolve(), pathlib.Path(folder), arguments.build.resolve() / "python")
        try:
            cluster.up()
            says_hello(cluster)
            trains(cluster)
            is_large(cluster, arguments.files, arguments.mebibytes << 20)
            is_refused(cluster)
        except BaseException:
            cluster.print_logs()
            raise
        finally:
            cluster.down()
    print("folders travel with their jobs")


main()
