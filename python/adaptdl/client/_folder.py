"""A folder that goes along with a job: what of it travels, as an archive that is known by its content.

The archive is a tar as the command `adaptdl` makes them, but compressed by gzip, which Python has: the same
folder has another digest there, and nothing else differs.
"""

import gzip
import hashlib
import os
import stat
import tarfile
import tempfile
from typing import IO, Any, Iterator, List, NamedTuple, Optional, Tuple

from adaptdl.client._errors import InvalidRequestError
from adaptdl.client._ignore import BUILT_IN, IgnoreRules

MAX_BYTES = 2 << 30
MAX_FILES = 100_000
_RULES = (".gitignore", ".adaptdlignore")  # the second one stands above the first
_MAX_RULES_BYTES = 1 << 20
_NAMED = 5


class PackedFolder(NamedTuple):
    """An open file without a name, and what is in it."""

    file: IO[bytes]
    digest: str
    size: int

    def __enter__(self) -> "PackedFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


class _Entry(NamedTuple):
    path: str
    info: os.stat_result
    target: Optional[str]


def pack(folder: str, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> PackedFolder:
    """The folder's files, but those that its rules leave out. InvalidRequestError says what can't travel."""
    entries = scan(folder, max_bytes, max_files)
    file = tempfile.TemporaryFile(prefix="adaptdl-submit-")
    try:
        # No time and no name: the same files are to give the same bytes.
        with gzip.GzipFile("", "wb", 1, file, mtime=0) as packed:
            with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
                for entry in entries:
                    _add(tar, folder, entry)
        size = file.tell()
        file.seek(0)
        digest = hashlib.sha256()
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
        return PackedFolder(file, digest.hexdigest(), size)
    except BaseException:
        file.close()
        raise


def scan(folder: str, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> List[_Entry]:
    """What of the folder travels, in order of its paths."""
    if not os.path.isdir(folder):
        raise InvalidRequestError(f"folder {folder} is no folder", "INVALID_ARGUMENT")
    entries: List[_Entry] = []
    size = 0
    for entry in _walk(folder, "", IgnoreRules(BUILT_IN)):
        entries.append(entry)
        size += _size(entry)
        if len(entries) > 10 * max_files:
            break
    if len(entries) > max_files or size > max_bytes:
        text = _too_much(folder, entries, size, max_bytes, max_files)
        raise InvalidRequestError(text, "RESOURCE_EXHAUSTED")
    return sorted(entries, key=lambda entry: os.fsencode(entry.path))


def _walk(root: str, folder: str, rules: IgnoreRules) -> Iterator[_Entry]:
    for name in _RULES:
        path = os.path.join(root, folder, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                rules = IgnoreRules(file.read(_MAX_RULES_BYTES), folder, rules)
    for name in os.listdir(os.path.join(root, folder)):
        path = f"{folder}/{name}" if folder else name
        info = os.lstat(os.path.join(root, path))
        is_folder = stat.S_ISDIR(info.st_mode)
        # A virtual environment works only where it was made.
        if rules.ignores(path, is_folder) or os.path.isfile(os.path.join(root, path, "pyvenv.cfg")):
            continue
        target = None
        if stat.S_ISLNK(info.st_mode):
            target = os.readlink(os.path.join(root, path))
            if _leads_out(path, target):
                raise _refused(path, f'is a symbolic link to "{target}" that leads out of the folder')
        elif not is_folder and not stat.S_ISREG(info.st_mode):
            raise _refused(path, "is neither a file, a folder nor a link")
        yield _Entry(path, info, target)
        if is_folder:
            yield from _walk(root, path, rules)


def _leads_out(path: str, target: str) -> bool:
    """Nodes take only relative links with ".." at their beginning, no more of them than there are folders."""
    parts = target.split("/")
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    return not target or target.startswith("/") or ups > path.count("/") or ".." in parts[ups:]


def _refused(path: str, why: str) -> InvalidRequestError:
    return InvalidRequestError(
        f'"{path}" {why}: change it, or leave it out by a line in .adaptdlignore', "INVALID_ARGUMENT"
    )


def _size(entry: _Entry) -> int:
    return entry.info.st_size if stat.S_ISREG(entry.info.st_mode) else 0


def _too_much(folder: str, entries: List[_Entry], size: int, max_bytes: int, max_files: int) -> str:
    many = len(entries) > max_files
    shares: "dict[str, int]" = {}
    for entry in entries:
        head, below, _ = entry.path.partition("/")
        name = head + below if below or not stat.S_ISDIR(entry.info.st_mode) else head + "/"
        shares[name] = shares.get(name, 0) + (1 if many else _size(entry))
    largest: List[Tuple[str, int]] = sorted(shares.items(), key=lambda share: -share[1])[:_NAMED]
    named = ", ".join(f'"{name}" ({amount})' for name, amount in largest)
    amount = f"{len(entries)} files and folders" if many else f"{size} bytes"
    limit = f"max_folder_files={max_files}" if many else f"max_folder_bytes={max_bytes}"
    return (
        f"the folder {folder} has {amount}, more than {limit}; most are in {named}: leave out what the job "
        "does not need by lines in .adaptdlignore or .gitignore, put data where the nodes can read it, or "
        "raise the limit"
    )


def _add(tar: Any, folder: str, entry: _Entry) -> None:
    header = tarfile.TarInfo(entry.path)
    header.mode = 0o755
    if entry.target is not None:
        header.type, header.linkname, header.mode = tarfile.SYMTYPE, entry.target, 0o777
        tar.addfile(header)
    elif stat.S_ISDIR(entry.info.st_mode):
        header.type = tarfile.DIRTYPE
        tar.addfile(header)
    else:
        header.size = entry.info.st_size
        if not entry.info.st_mode & stat.S_IXUSR:
            header.mode = 0o644
        path = os.path.join(folder, entry.path)
        changed = f"{path} has changed while it was packed: submit again when it rests"
        with open(path, "rb") as file:
            try:
                tar.addfile(header, file)
            except OSError as error:
                raise InvalidRequestError(f"{changed} ({error})", "ABORTED") from error
            if file.read(1):
                raise InvalidRequestError(changed, "ABORTED")
