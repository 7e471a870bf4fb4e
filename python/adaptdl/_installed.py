"""What is installed under the name `adaptdl`: this package's own files, and AdaptDL's package of old, which
has the same import name and must not lie beside it."""

import base64
import hashlib
import os
import warnings
from importlib import metadata
from typing import Dict, List, Optional

DISTRIBUTION = "adaptdl-elastic"
OLD_DISTRIBUTION = "adaptdl"
FOLDER = os.path.dirname(os.path.abspath(__file__))


def _found(name: str) -> Optional[metadata.Distribution]:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def old_package() -> Optional[Dict[str, str]]:
    """The version and folder of the old package, and how to remove it. None: it is not installed."""
    old = _found(OLD_DISTRIBUTION)
    if old is None:
        return None
    folder = os.path.abspath(str(old.locate_file("adaptdl")))
    removal = f"python -m pip uninstall {OLD_DISTRIBUTION}"
    if os.path.realpath(folder) == os.path.realpath(FOLDER):  # both have files of the same names
        removal += f" && python -m pip install --force-reinstall --no-deps {DISTRIBUTION}"
    return {"version": old.version, "folder": folder, "removal": removal}


def warn_of_old_package() -> None:
    """Says that the old package is installed too, if it is."""
    old = old_package()
    if old is not None:
        warnings.warn(f"AdaptDL's package 'adaptdl' {old['version']} is installed too, in {old['folder']}, "
                      f"and has the same import name as '{DISTRIBUTION}': one takes the place of the other. "
                      f"Remove it: {old['removal']}",
                      RuntimeWarning, stacklevel=3)


def altered_files() -> List[str]:
    """The package's files that are not as its wheel has them. Nothing is known of what no wheel has
    installed."""
    own = _found(DISTRIBUTION)
    if own is None or not os.path.samefile(FOLDER, _folder_of(own)):
        return []
    return [str(file) for file in own.files or []
            if file.hash is not None and str(file).startswith("adaptdl/")
            and _digest(str(own.locate_file(file))) != file.hash.value]


def _folder_of(distribution: metadata.Distribution) -> str:
    folder = str(distribution.locate_file("adaptdl"))
    return folder if os.path.isdir(folder) else os.sep


def _digest(path: str) -> Optional[str]:
    """As RECORD has it. None: it cannot be read."""
    try:
        with open(path, "rb") as file:
            return base64.urlsafe_b64encode(hashlib.sha256(file.read()).digest()).rstrip(b"=").decode()
    except OSError:
        return None
