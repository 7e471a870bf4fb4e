#!/usr/bin/env python3
"""Runs the conformance suite: against the double, which it starts, or against a cluster.

    run.py                    the double, with two nodes
    run.py --cluster          what KUBECONFIG names, through `kubectl proxy`
    run.py --url URL          an API server that asks for no credentials
    run.py ... NAME...        only these, as unittest names them: test_apply, test_apply.ApplyTest.test_...

On a cluster it makes one namespace and one CRD of random names for each class of tests, and deletes them.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

# Of the pods that tests run: one with a shell, and one with Python. In the double, its machine stands for both.
IMAGES = (os.environ.setdefault("ADAPTDL_CONFORMANCE_IMAGE", "busybox:1.36"),
          os.environ.setdefault("ADAPTDL_CONFORMANCE_PYTHON_IMAGE", "python:3.11-slim"))
# Exit code of what may not run on this machine.
SKIPPED = 77
ADDRESS = r"(http://\S+)"
HERE = pathlib.Path(__file__).resolve().parent


@contextlib.contextmanager
def started(command, address, may_skip=False):
    """Starts a program that prints its address, and ends it afterwards. Nothing: it may not run here, and that is no error."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parent)
    try:
        line = process.stdout.readline()
        match = re.search(address, line)
        if not match and may_skip and process.wait() == SKIPPED:
            yield None
            return
        if not match:
            sys.exit(f"{command[0]} did not say where it serves, but: {line!r}")
        yield match.group(1)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def double():
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "nodes").write_text(json.dumps([{"name": "node-a"}, {"name": "node-b"}]))
        (folder / "images").write_text(json.dumps({image: {} for image in IMAGES}))
        apiserver = [sys.executable, "-m", "apiserver", "--bookmark-period", "1"]
        url = stack.enter_context(started(apiserver, ADDRESS))
        kubelet = [
            sys.executable, "-m", "kubelet", "--server", url, "--nodes", folder / "nodes", "--images",
            folder / "images", "--root", folder / "root"
        ]
        if stack.enter_context(started(kubelet, ADDRESS, may_skip=True)) is None:
            print("no kubelet may run here: what needs one is skipped", file=sys.stderr)
        yield url


@contextlib.contextmanager
def cluster():
    with started(["kubectl", "proxy", "--port=0"], r"Starting to serve on (\S+)") as address:
        yield "http://" + address


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--cluster", action="store_true")
    where.add_argument("--url")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    server = contextlib.nullcontext(
        options.url) if options.url else cluster() if options.cluster else double()
    sys.path.insert(0, str(HERE))
    with server as url:
        os.environ["ADAPTDL_CONFORMANCE_URL"] = url
        loader = unittest.TestLoader()
        tests = loader.loadTestsFromNames(options.names) if options.names else loader.discover(str(HERE))
        result = unittest.TextTestRunner(verbosity=1).run(tests)
    sys.exit(not result.wasSuccessful() or result.testsRun == 0)


if __name__ == "__main__":
    main()
