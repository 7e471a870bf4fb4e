#!/usr/bin/env python3
"""The folders of libs/elastic use each other one way: rooms_test.py LIBS_ELASTIC

Each may include the folders that libs/elastic/README.md lists above it, and LibTorch only torch/ and public headers.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^#include [<"]([^>"]+)[>"]', re.MULTILINE)
LIBTORCH = ("torch/", "ATen/", "c10/")


def folders(readme):
    """In the order in which they may use each other."""
    return re.findall(r"^\| `([a-z/]+)/` \|", readme, re.MULTILINE)


def mistakes(root):
    order = folders((root / "README.md").read_text())
    found = [f"{path.name}: lies in no folder" for path in root.iterdir() if path.suffix in (".h", ".cc")]
    for path in sorted(root.rglob("*")):
        folder = str(path.parent.relative_to(root))
        if path.suffix not in (".h", ".cc") or folder.startswith("include"):
            continue
        if folder not in order:
            found.append(f"{folder}: is not in README.md")
            continue
        for include in INCLUDE.findall(path.read_text()):
            if include.startswith(LIBTORCH) and folder != "torch":
                found.append(f"{path.relative_to(root)}: includes LibTorch's {include}")
            if not include.startswith("libs/elastic/"):
                continue
            used = str(pathlib.PurePath(include).parent.relative_to("libs/elastic"))
            if used not in order or order.index(used) > order.index(folder):
                found.append(f"{path.relative_to(root)}: may not include {include}")
            if used == "control/grpc" and folder != used:
                found.append(f"{path.relative_to(root)}: may not include gRPC's {include}")
    return found


def main():
    root = pathlib.Path(sys.argv[1])
    found = mistakes(root)
    for mistake in found:
        print(mistake)
    assert len(folders((root / "README.md").read_text())) >= 10, "README.md lists no folders"
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
