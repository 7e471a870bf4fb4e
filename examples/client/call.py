#!/usr/bin/python3
"""Calls any method of any of our servers by its name, with nothing but what the server tells of itself (--reflection):

    call.py HOST:PORT                                                   lists services and methods
    call.py HOST:PORT adaptdl.v1.JobService/GetJob '{"name": "digits"}'   calls one; answers come as JSON

ADAPTDL_CA_FILE and ADAPTDL_TOKEN_FILE say whom to trust and who it is (an operator or admin); without them it talks in
plaintext. ADAPTDL_TLS_SERVER_NAME is the name that the certificate must have (supervisor.adaptdl).
"""

import os
import pathlib
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def reflection_messages():
    """Request and response of the reflection service, as far as they are needed here."""
    file = descriptor_pb2.FileDescriptorProto(name="reflection.proto", package="reflection", syntax="proto3")

    def message(name, *fields):
        made = file.message_type.add(name=name)
        for number, field, type_, label, of in fields:
            made.field.add(name=field, number=number, type=type_, label=label, type_name=of)
    text, data, nested, one, many = 9, 12, 11, 1, 3
    message("Request", (4, "symbol", text, one, None), (7, "list_services", text, one, None))
    message("Files", (1, "file", data, many, None))
    message("Service", (1, "name", text, one, None))
    message("Services", (1, "service", nested, many, ".reflection.Service"))
    message("Failure", (1, "code", 5, one, None), (2, "message", text, one, None))
    message("Response", (4, "files", nested, one, ".reflection.Files"),
            (6, "services", nested, one, ".reflection.Services"),
            (7, "failure", nested, one, ".reflection.Failure"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [message_class(pool.FindMessageTypeByName(f"reflection.{name}")) for name in ("Request", "Response")]


def message_class(descriptor):
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory().GetPrototype(descriptor)  # before protobuf 4.22


class Server:
    def __init__(self, channel):
        self._channel = channel
        self._request, response = reflection_messages()
        self._reflect = channel.stream_stream(
            REFLECTION, request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString)
        self._pool = descriptor_pool.DescriptorPool()

    def _ask(self, **request):
        answer = next(self._reflect(iter([self._request(**request)]), timeout=10))
        if answer.HasField("failure"):
            sys.exit(f"call: {answer.failure.message}")
        return answer

    def services(self):
        return sorted(service.name for service in self._ask(list_services="*").services.service)

    def service(self, name):
        files = [descriptor_pb2.FileDescriptorProto.FromString(data)
                 for data in self._ask(symbol=name).files.file]
        known = {file.name: file for file in files}
        added = set()

        def add(file):  # what a file uses comes first
            if file.name in added:
                return
            added.add(file.name)
            for used in file.dependency:
                add(known[used])
            self._pool.Add(file)
        for file in files:
            add(file)
        return self._pool.FindServiceByName(name)

    def call(self, service, name, request):
        method = self.service(service).FindMethodByName(name)
        shape = descriptor_pb2.MethodDescriptorProto()
        method.CopyToProto(shape)
        kind = ("stream" if shape.client_streaming else "unary") + "_stream"  # one answer is a stream of one
        call = getattr(self._channel, kind)(
            f"/{service}/{name}", request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_class(method.output_type).FromString)
        message = json_format.Parse(request, message_class(method.input_type)())
        for answer in call(iter([message]) if shape.client_streaming else message):
            print(json_format.MessageToJson(answer), flush=True)


def connect(address):
    if "ADAPTDL_CA_FILE" not in os.environ:
        return grpc.insecure_channel(address)
    ca = pathlib.Path(os.environ["ADAPTDL_CA_FILE"]).read_bytes()
    token = pathlib.Path(os.environ["ADAPTDL_TOKEN_FILE"]).read_text().strip()
    credentials = grpc.composite_channel_credentials(
        grpc.ssl_channel_credentials(ca), grpc.access_token_call_credentials(token))
    name = os.environ.get("ADAPTDL_TLS_SERVER_NAME", "supervisor.adaptdl")
    return grpc.secure_channel(address, credentials, [("grpc.ssl_target_name_override", name)])


def main(arguments):
    if not 1 <= len(arguments) <= 3 or arguments[0].startswith("-"):
        print(__doc__.strip())
        return 0 if arguments in (["-h"], ["--help"]) else 2
    with connect(arguments[0]) as channel:
        server = Server(channel)
        if len(arguments) == 1:
            for name in server.services():
                print("\n".join(f"{name}/{method.name}" for method in server.service(name).methods))
            return 0
        service, _, method = arguments[1].rpartition("/")
        if method not in [known.name for known in server.service(service).methods]:
            sys.exit(f'call: {service} has no method "{method}"')
        server.call(service, method, arguments[2] if len(arguments) == 3 else "{}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except grpc.RpcError as error:
        sys.exit(f"call: {error.details()} ({error.code().name})")
    except json_format.ParseError as error:
        sys.exit(f"call: the request does not fit: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
