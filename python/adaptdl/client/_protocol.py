"""The protocol's messages and calls, made at the first use from the description that comes with the package.

Generated modules would bind users to the versions of protobuf that they were generated for. A
FileDescriptorSet does not: any protobuf since 3.20 makes messages from it, in a pool of its own, which meets
no other program's messages.
"""

import functools
import pathlib
from typing import Any, Iterable, NamedTuple, Type

try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError as error:
    raise ImportError(
        f"adaptdl.client needs the packages grpcio and protobuf (3.20 or later): {error}",
        name=error.name,
    ) from error

_DESCRIPTION = pathlib.Path(__file__).absolute().parent.parent / "protocol.pb"
_PACKAGE = "adaptdl.v1."


@functools.lru_cache(maxsize=None)
def _pool() -> descriptor_pool.DescriptorPool:
    description = descriptor_pb2.FileDescriptorSet.FromString(_DESCRIPTION.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in description.file:  # each behind those that it imports
        (
            pool.Add(file)
            if not hasattr(pool, "AddSerializedFile")
            else pool.AddSerializedFile(file.SerializeToString())
        )
    return pool


@functools.lru_cache(maxsize=None)
def message_class(name: str) -> Type[Any]:
    """The class of messages of this name: "Job", or "google.rpc.Status"."""
    descriptor = _pool().FindMessageTypeByName(name if "." in name else _PACKAGE + name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)  # type: ignore[no-any-return]
    return message_factory.MessageFactory(_pool()).GetPrototype(descriptor)  # type: ignore[no-any-return]


def enum_name(enum: str, number: int) -> str:
    """ "RUNNING" for ("JobPhase", 3). A number that this version does not know: "UNKNOWN_9"."""
    descriptor = _pool().FindEnumTypeByName(_PACKAGE + enum)
    value = descriptor.values_by_number.get(number)
    return value.name[len(_prefix(enum)) :] if value is not None else f"UNKNOWN_{number}"


def enum_number(enum: str, name: str) -> int:
    """The reverse of enum_name(). ValueError: there is none of this name."""
    descriptor = _pool().FindEnumTypeByName(_PACKAGE + enum)
    value = descriptor.values_by_name.get(_prefix(enum) + name)
    if value is None:
        names = ", ".join(each.name[len(_prefix(enum)) :] for each in descriptor.values if each.number != 0)
        raise ValueError(f"{name!r} is none of {names}")
    return int(value.number)


def _prefix(enum: str) -> str:
    """ "JOB_PHASE_" of "JobPhase"."""
    return (
        "".join("_" + letter if letter.isupper() and at else letter for at, letter in enumerate(enum)).upper()
        + "_"
    )


class Method(NamedTuple):
    """A call of a service."""

    path: str
    request: Type[Any]
    response: Type[Any]
    streams: bool
    uploads: bool

    def on(self, channel: "grpc.Channel") -> Any:
        """What makes this call over the channel."""
        make = channel.unary_stream if self.streams else channel.unary_unary
        if self.uploads:
            make = channel.stream_unary
        return make(
            self.path,
            request_serializer=self.request.SerializeToString,
            response_deserializer=self.response.FromString,
        )


@functools.lru_cache(maxsize=None)
def method(service: str, name: str) -> Method:
    """The call `name` of the service, such as ("JobService", "SubmitJob")."""
    descriptor = _pool().FindServiceByName(_PACKAGE + service).methods_by_name[name]
    # Not every version tells of a method whether it streams; what is named so does.
    return Method(
        f"/{_PACKAGE}{service}/{name}",
        message_class(descriptor.input_type.full_name),
        message_class(descriptor.output_type.full_name),
        name.startswith(("Stream", "Watch", "Read")),
        name.startswith("Upload"),
    )


def retry_delay(details: Iterable[Any]) -> Any:
    """Seconds after which the call may succeed, as the metadata that ends it says. None: it does not."""
    for key, value in details:
        if key != "grpc-status-details-bin":
            continue
        for detail in message_class("google.rpc.Status").FromString(value).details:
            if detail.type_url.endswith("/google.rpc.RetryInfo"):
                delay = message_class("google.rpc.RetryInfo").FromString(detail.value).retry_delay
                return max(delay.seconds + delay.nanos / 1e9, 0.0)
    return None
