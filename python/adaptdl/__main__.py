"""`python -m adaptdl`: the package's version, and what it has found."""

import importlib.metadata
import os
import sys

import adaptdl
from adaptdl import Error, _engine


def main() -> int:
    """Says it; the exit code is 1 if something is missing that training needs."""
    problems = []
    print(f"adaptdl {adaptdl.__version__}, {os.path.dirname(os.path.abspath(adaptdl.__file__))}")
    print(f"Python {sys.version.split()[0]}, {sys.executable}")
    try:
        import torch
        print(f"PyTorch {torch.__version__}")
    except ImportError as error:
        problems.append(f"PyTorch cannot be imported ({error}): install torch")
    try:
        print(f"engine: {_engine.LIBRARY}, interface {_engine.engine.interface()}")
    except Error as error:
        problems.append(str(error))
    control = os.path.join(os.path.dirname(_engine.LIBRARY), "libadaptdl_control.so")
    if os.path.exists(control):
        print(f"talks to supervisors by: {control}")
    else:
        problems.append(f"{control} is missing: programs train by hand, and not on a cluster")
    try:
        old = importlib.metadata.version("adaptdl")
        problems.append(
            f"AdaptDL's own package {old} is installed beside this one, under the same name: pip uninstall adaptdl, "
            "and install this one anew")
    except importlib.metadata.PackageNotFoundError:
        pass
    for problem in problems:
        print(f"problem: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
