#!/usr/bin/env python3
"""libadaptdl-dev in a fresh Debian: a program of somebody else's (tests/package) finds it by CMake, is built, and trains.
Needs root, a Debian mirror and 6 GB of disk; scripts/package.sh --check-training runs it.

  training_package_test.py PACKAGE
"""

import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from debian_root import ROOT, DebianRoot, enter_namespaces, say  # noqa: E402


def main():
    enter_namespaces()
    package = pathlib.Path(sys.argv[1]).resolve()
    debian = DebianRoot(package.parent / "training-root", in_memory=False)
    say("installing the training library with LibTorch, and compilers")
    debian.install(debian.put(package), "g++", "cmake", "make")
    shutil.copytree(ROOT / "tests/package", debian.folder / "root/train")
    say("building a program with it")
    debian.run("cmake", "-S", "/root/train", "-B", "/root/build", "-DCMAKE_BUILD_TYPE=Release")
    debian.run("cmake", "--build", "/root/build")
    output = debian.run("/root/build/train")
    print(output)
    if "slope 3.00, intercept 1.00" not in output:
        raise SystemExit("it has not learnt the line")
    debian.remove()
    print("the training library's package is fine")


if __name__ == "__main__":
    main()
