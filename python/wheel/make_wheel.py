#!/usr/bin/env python3
"""Makes the wheel of the package that the build has put together.

    make_wheel.py PACKAGE VERSION OUTPUT
        PACKAGE: the folder "adaptdl", with its libraries; OUTPUT: where the wheel goes

Needs patchelf, binutils and, for the licences of what is bundled, a Debian. The same package gives the same
wheel, byte by byte.
"""

import base64
import hashlib
import pathlib
import platform
import re
import shutil
import sys
import tempfile
import zipfile
from typing import List

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from libraries import Bundled, bundle, oldest_system, packages_of  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NAME = "adaptdl_elastic"
OWN_LIBRARIES = ("libadaptdl_engine.so", "libadaptdl_control.so")
# For NVIDIA's GPUs: where the build has it.
OPTIONAL_LIBRARIES = ("libadaptdl_cuda.so",)

METADATA = """\
Metadata-Version: 2.1
Name: adaptdl-elastic
Version: {version}
Summary: Elastic, goodput-optimised training for PyTorch programs
License: Apache-2.0
Keywords: pytorch,distributed,elastic,adaptdl
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Typing :: Typed
Requires-Python: >=3.9
Provides-Extra: torch
Requires-Dist: numpy; extra == "torch"
Requires-Dist: torch>=1.13; extra == "torch"
Provides-Extra: tune
Requires-Dist: grpcio; extra == "tune"
Requires-Dist: optuna>=3.1; extra == "tune"
Requires-Dist: protobuf>=3.20; extra == "tune"
Requires-Dist: pyyaml; extra == "tune"
Description-Content-Type: text/markdown

{description}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: adaptdl make_wheel
Root-Is-Purelib: false
Tag: {tag}
"""

LICENCES = """\
Libraries in adaptdl/_libs that are not AdaptDL's own, by the Debian source package that they are built from.
They are linked dynamically, and unchanged but for their names and search paths. `<package>.copyright` has the
licences.

"""


def sources_of(package: pathlib.Path) -> List[pathlib.Path]:
    """What the wheel holds of the package beside libraries, relative to it."""
    kept = [path.relative_to(package) for pattern in ("*.py", "py.typed") for path in package.glob(pattern)]
    for folder in sorted(path for path in package.iterdir() if (path / "__init__.py").is_file()):
        kept += [folder.relative_to(package) / path for path in sources_of(folder)]
    return sorted(kept)


def check_version(package: pathlib.Path, version: str) -> None:
    """The package says its version itself; it is to be the project's."""
    said = re.search(r'^__version__ = "([^"]+)"', (package / "__init__.py").read_text(), re.MULTILINE)
    if said is None or said[1] != version:
        raise SystemExit(f"python/adaptdl/__init__.py says version {said and said[1]}, and the project is "
                         f"{version}")


def write_licences(folder: pathlib.Path, bundled: List[Bundled]) -> None:
    """The licence of the package, and those of what it brings along."""
    folder.mkdir(parents=True)
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
    # Headers that the package's own libraries are compiled with.
    shutil.copyfile(ROOT / "deploy/debian/copyright", folder / "adaptdl.copyright")
    lines = [f"{of.source} {of.version}: {' '.join(of.files)}\n" for of in bundled]
    (folder / "bundled-libraries.txt").write_text(LICENCES + "".join(lines))
    for of in bundled:
        shutil.copyfile(of.copyright, folder / f"{of.source}.copyright")


def write_zip(tree: pathlib.Path, information: str, wheel: pathlib.Path) -> None:
    """All files of the tree, and RECORD, which names them all."""
    record = []
    part = wheel.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        def add(name: str, content: bytes, mode: int) -> None:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)

        for path in sorted(path for path in tree.rglob("*") if path.is_file()):
            name, content = path.relative_to(tree).as_posix(), path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
            add(name, content, 0o755 if ".so" in path.name else 0o644)
        add(f"{information}/RECORD", "".join([*record, f"{information}/RECORD,,\n"]).encode(), 0o644)
    part.rename(wheel)


def make(package: pathlib.Path, version: str, output: pathlib.Path) -> pathlib.Path:
    """Makes the wheel, and returns its path."""
    check_version(package, version)
    own = [package / name for name in OWN_LIBRARIES]
    own += [package / name for name in OPTIONAL_LIBRARIES if (package / name).exists()]
    for library in own:
        if not library.exists():
            raise SystemExit(f"{library} is not there: build the target adaptdl_python")
    with tempfile.TemporaryDirectory() as work:
        tree = pathlib.Path(work)
        inside = tree / "adaptdl"
        for path in sources_of(package):
            (inside / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(package / path, inside / path)
        bundled = packages_of(list(bundle(own, inside).values()))
        libraries = [path for path in inside.rglob("*") if ".so" in path.name]
        tag = f"py3-none-manylinux_2_{oldest_system(libraries)}_{platform.machine()}"
        information = f"{NAME}-{version}.dist-info"
        write_licences(tree / information / "licenses", bundled)
        (tree / information / "METADATA").write_text(
            METADATA.format(version=version, description=(HERE / "description.md").read_text()))
        (tree / information / "WHEEL").write_text(WHEEL.format(tag=tag))
        output.mkdir(parents=True, exist_ok=True)
        wheel = output / f"{NAME}-{version}-{tag}.whl"
        write_zip(tree, information, wheel)
    return wheel


def main() -> None:
    """What the text above says."""
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    wheel = make(pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]))
    print(f"made {wheel} ({wheel.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
