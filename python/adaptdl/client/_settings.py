"""Where the cluster is and who this caller is: found as the command `adaptdl` finds it (docs/cli.md)."""

import json
import os
import pathlib
from typing import Dict, List, NamedTuple, Optional

from adaptdl.client._errors import InvalidRequestError

_DEFAULT_ADDRESS = "127.0.0.1:7100"
_DEFAULT_NAME = "supervisor.adaptdl"


class Settings(NamedTuple):
    """How to reach the supervisor."""

    addresses: List[str]
    # PEM; none: without TLS.
    ca: Optional[bytes]
    # Empty: none.
    token: str
    # That the server's certificate must have.
    server_name: str


def find_settings(
    supervisor: Optional[str],
    ca_file: Optional[str],
    token: Optional[str],
    token_file: Optional[str],
    server_name: Optional[str],
    insecure: bool,
) -> Settings:
    """What is given, else the environment's, else the local cluster's."""
    record = _local_cluster()
    address = (
        supervisor
        or os.environ.get("ADAPTDL_SUPERVISOR_ADDRESS")
        or record.get("supervisor")
        or _DEFAULT_ADDRESS
    )
    addresses = [part.strip() for part in address.split(",")]
    if not all(part.rpartition(":")[0] and part.rpartition(":")[2].isdigit() for part in addresses):
        raise InvalidRequestError(
            f'supervisor "{address}" is not valid: give host:port, or several of them, separated '
            "by commas",
            "INVALID_ARGUMENT",
        )
    # Its token is for this cluster only.
    own = record if address == record.get("supervisor") else {}
    name = server_name or os.environ.get("ADAPTDL_TLS_SERVER_NAME") or _DEFAULT_NAME
    if insecure or (not ca_file and os.environ.get("ADAPTDL_INSECURE") == "1"):
        return Settings(addresses, None, "", name)
    ca = ca_file or os.environ.get("ADAPTDL_CA_FILE") or own.get("caFile")
    if not ca:
        if own:  # it was started with --insecure
            return Settings(addresses, None, "", name)
        raise InvalidRequestError(
            f"nothing tells how to make sure that {address} is the right server: give the cluster's CA by "
            "ca_file or ADAPTDL_CA_FILE, or insecure=True for one without TLS",
            "INVALID_ARGUMENT",
        )
    return Settings(addresses, _read(ca), _find_token(token, token_file, own), name)


def _local_cluster() -> Dict[str, str]:
    """What `adaptdl cluster up` has noted. Empty: there is no such cluster."""
    home = os.environ.get("ADAPTDL_HOME")
    path = pathlib.Path(home) if home else pathlib.Path(os.environ.get("HOME") or ".") / ".adaptdl"
    try:
        record = json.loads((path / "cluster.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _find_token(token: Optional[str], token_file: Optional[str], own: Dict[str, str]) -> str:
    if token:
        return token
    if not token_file and os.environ.get("ADAPTDL_TOKEN"):
        return os.environ["ADAPTDL_TOKEN"]
    path = token_file or os.environ.get("ADAPTDL_TOKEN_FILE") or own.get("tokenFile")
    if not path:
        return ""
    text = _read(path).decode("utf-8", "replace").strip()
    if not text or any(not "!" <= letter <= "~" for letter in text):
        raise InvalidRequestError(f"{path} must hold a token and nothing else", "INVALID_ARGUMENT")
    return text


def _read(path: str) -> bytes:
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise InvalidRequestError(f"{path} can't be read: {error.strerror}", "INVALID_ARGUMENT") from error
