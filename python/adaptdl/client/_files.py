"""Files of a job, written into a new folder and never outside of it, whatever names the server sends."""

import os
import pathlib
from typing import IO, Any, Callable, Iterable, Optional

from adaptdl.client._errors import ClientError, InvalidRequestError

FOLDERS = ("share", "checkpoint")


def new_folder(path: str) -> pathlib.Path:
    """The folder, made if it is not there. InvalidRequestError: it is no folder, or something is in it."""
    folder = pathlib.Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InvalidRequestError(f"{path} holds files already: give a new folder, or an empty one", "ALREADY_EXISTS")
    except OSError as error:
        text = f"{path} can't be made a folder for copies: {error.strerror}"
        raise InvalidRequestError(text, "INVALID_ARGUMENT") from error
    return folder


def write(folder: pathlib.Path, chunks: Iterable[Any], on_bytes: Optional[Callable[[int], None]]) -> int:
    """What the chunks (v1.FileChunk) say. Gives the number of files."""
    files, received = 0, 0
    current: Optional[IO[bytes]] = None
    left, path = 0, ""
    try:
        for chunk in chunks:
            if left > 0 and (chunk.path != path or chunk.directory):
                break
            target = _inside(folder, chunk.path)
            if chunk.directory:
                target.mkdir(parents=True, exist_ok=True)
                continue
            if chunk.offset == 0:
                if current is not None:
                    current.close()
                target.parent.mkdir(parents=True, exist_ok=True)
                # New: a link that was there before would be followed.
                current = open(target, "xb")
                os.chmod(current.fileno(), chunk.mode & 0o777)
                files, left, path = files + 1, chunk.size, chunk.path
            if current is None or chunk.path != path or chunk.offset != chunk.size - left:
                raise ClientError(f"the pieces of {chunk.path!r} do not follow each other: copy it again", "DATA_LOSS")
            current.write(chunk.data)
            left -= len(chunk.data)
            received += len(chunk.data)
            if on_bytes is not None:
                on_bytes(received)
        if left > 0:
            raise ClientError(f"{path!r} is not whole, it may have changed meanwhile: copy it again", "DATA_LOSS")
    finally:
        if current is not None:
            current.close()
    return files


def _inside(folder: pathlib.Path, path: str) -> pathlib.Path:
    parts = pathlib.PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "\0" in path:
        raise ClientError(f"the server sent the path {path!r}, which leads out of the folder", "DATA_LOSS")
    return folder.joinpath(*parts)
