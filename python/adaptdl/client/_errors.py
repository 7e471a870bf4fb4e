"""Failures of the client, by what one does about them. Their text is the server's."""

from typing import Dict, Type

import grpc

from adaptdl import Error

__all__ = [
    "AlreadyExistsError",
    "ClientError",
    "ConnectionFailedError",
    "InvalidRequestError",
    "JobNotFoundError",
    "LimitReachedError",
    "NotAllowedError",
    "WaitTimeoutError",
    "WrongStateError",
    "code_of",
    "error_from",
]


class ClientError(Error):
    """A call has failed. `code` is gRPC's name of the reason, such as "NOT_FOUND"."""

    def __init__(self, text: str, code: str = "UNKNOWN") -> None:
        super().__init__(text)
        self.code = code


class InvalidRequestError(ClientError, ValueError):
    """A field is wrong; the text names it, its value and the remedy."""


class JobNotFoundError(ClientError, LookupError):
    """There is no such job, or none that this caller may see."""


class AlreadyExistsError(ClientError):
    """A job of this name is there already."""


class WrongStateError(ClientError):
    """What was asked for can't be done to a job in its present state."""


class NotAllowedError(ClientError, PermissionError):
    """The supervisor does not know the caller, or does not let it do this."""


class LimitReachedError(ClientError):
    """A bound of the cluster or of the namespace has been reached."""


class ConnectionFailedError(ClientError, ConnectionError):
    """The supervisor can't be reached, or does not answer in time."""


class WaitTimeoutError(ClientError, TimeoutError):
    """The time that wait() was given has passed; the job goes on."""


_BY_CODE: Dict[grpc.StatusCode, Type[ClientError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.NOT_FOUND: JobNotFoundError,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExistsError,
    grpc.StatusCode.FAILED_PRECONDITION: WrongStateError,
    grpc.StatusCode.UNAUTHENTICATED: NotAllowedError,
    grpc.StatusCode.PERMISSION_DENIED: NotAllowedError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: LimitReachedError,
    grpc.StatusCode.UNAVAILABLE: ConnectionFailedError,
    grpc.StatusCode.DEADLINE_EXCEEDED: ConnectionFailedError,
}


def code_of(error: grpc.RpcError) -> grpc.StatusCode:
    """gRPC's name of the reason. A connection that broke in the middle of a call, of TLS for one, is UNAVAILABLE: gRPC
    calls it UNKNOWN, which no server of ours answers with this text."""
    code: grpc.StatusCode = error.code()
    if code == grpc.StatusCode.UNKNOWN and error.details() == "Stream removed":
        return grpc.StatusCode.UNAVAILABLE
    return code


def error_from(error: grpc.RpcError, address: str) -> ClientError:
    """The exception for what gRPC raised in a call to `address`."""
    code = code_of(error)
    text = error.details() or code.name
    if code == grpc.StatusCode.UNAVAILABLE:
        text = f"supervisor unreachable at {address}: is the cluster up? ({text})"
    elif code == grpc.StatusCode.DEADLINE_EXCEEDED:
        text = f"supervisor at {address} did not answer in time ({text})"
    return _BY_CODE.get(code, ClientError)(text, code.name)
