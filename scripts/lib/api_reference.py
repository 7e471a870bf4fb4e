#!/usr/bin/env python3
"""Writes docs/api.md, the reference of the public API, from the comments in proto/adaptdl/v1.

    scripts/lib/api_reference.py            writes it
    scripts/lib/api_reference.py --check    says whether it is as it would be written (exit code 1: it is not)

Needs protoc and Debian's python3-protobuf.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTOS = ROOT / "proto"
PAGE = ROOT / "docs/api.md"
PACKAGE = ".adaptdl.v1."
INTRODUCTION = """\
# API

Everything that the parts of AdaptDL say to each other, and all that its command and clients do, is this gRPC API. This page is made
of the comments in `proto/adaptdl/v1` by `scripts/lib/api_reference.py`; a test holds it to them. Who may call what:
[security](security.md#users). There are clients for [Python](python-client.md) and [C++](client.md); [examples/client](../examples/client/README.md) has
programs in C++ and Python, and one that calls any method by name through the servers' reflection:

```sh
examples/client/call.py 127.0.0.1:7100 adaptdl.v1.JobService/ListJobs '{"namespace": "*"}'
```

A field that only `proto/names.md` describes means the same wherever it stands:

"""
SCALARS = {number: name[5:].lower() for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()}


def compile_protos():
    """The descriptors of our protos, with comments."""
    protos = sorted(path.relative_to(PROTOS).as_posix() for path in (PROTOS / "adaptdl/v1").glob("*.proto"))
    with tempfile.NamedTemporaryFile(suffix=".pb") as output:
        subprocess.run(["protoc", "-I", str(PROTOS), "--include_source_info",
                        f"--descriptor_set_out={output.name}", *protos], cwd=PROTOS, check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(output.name).read_bytes())
    return files.file


def comments_of(file):
    """Comments by path of the element."""
    return {tuple(location.path): location.leading_comments for location in file.source_code_info.location
            if location.leading_comments}


def cell(text):
    """A comment as one line of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def paragraphs(text):
    lines = [line.strip() for line in text.strip().splitlines()]
    return "\n".join(lines).replace("<", "&lt;")


def anchor(name):
    return name.replace(".", "").lower()


def type_name(field, maps):
    if field.type_name in maps:
        key, value = maps[field.type_name].field
        return f"map of {type_name(key, maps)} to {type_name(value, maps)}"
    if field.type_name.startswith(PACKAGE):
        name = field.type_name[len(PACKAGE):]
        text = f"[{name}](#{anchor(name)})"
    elif field.type_name:
        text = field.type_name.rpartition(".")[2]
    else:
        text = SCALARS[field.type]
    if field.label == field.LABEL_REPEATED:
        return f"list of {text}"
    return f"optional {text}" if field.proto3_optional else text


def write_service(service, path, comments, write):
    write(f"### {service.name}\n\n{paragraphs(comments.get(path, ''))}\n\n")
    write("| method | asks, is answered | |\n|---|---|---|\n")
    for index, method in enumerate(service.method):
        names = [type_.rpartition(".")[2] for type_ in (method.input_type, method.output_type)]
        links = [f"{'stream of ' if streams else ''}[{name}](#{anchor(name)})" for name, streams in
                 zip(names, (method.client_streaming, method.server_streaming))]
        write(f"| `{method.name}` | {links[0]}, {links[1]} | {cell(comments.get(path + (2, index), ''))} |\n")
    write("\n")


def write_message(message, path, comments, write, prefix=""):
    name = prefix + message.name
    write(f"### {name}\n\n")
    if comments.get(path):
        write(f"{paragraphs(comments[path])}\n\n")
    maps = {f"{PACKAGE}{name}.{nested.name}": nested for nested in message.nested_type if nested.options.map_entry}
    if message.field:
        write("| field | type | meaning |\n|---|---|---|\n")
    for index, field in enumerate(message.field):
        text = cell(comments.get(path + (2, index), ""))
        if field.HasField("oneof_index") and not field.proto3_optional:
            group = message.oneof_decl[field.oneof_index].name
            text = f"One of `{group}`. {text}".rstrip()
        write(f"| `{field.name}` | {type_name(field, maps)} | {text} |\n")
    write("\n" if message.field else "No fields.\n\n")
    for index, nested in enumerate(message.nested_type):
        if not nested.options.map_entry:
            write_message(nested, path + (3, index), comments, write, f"{name}.")
    for index, enum in enumerate(message.enum_type):
        write_enum(enum, path + (4, index), comments, write, f"{name}.")


def write_enum(enum, path, comments, write, prefix=""):
    write(f"### {prefix}{enum.name}\n\n")
    if comments.get(path):
        write(f"{paragraphs(comments[path])}\n\n")
    write("| value | number | meaning |\n|---|---|---|\n")
    for index, value in enumerate(enum.value):
        write(f"| `{value.name}` | {value.number} | {cell(comments.get(path + (2, index), ''))} |\n")
    write("\n")


def write_file(file, write):
    comments = comments_of(file)
    write(f"## {file.name.rpartition('/')[2]}\n\n")
    for index, service in enumerate(file.service):
        write_service(service, (6, index), comments, write)
    for index, message in enumerate(file.message_type):
        write_message(message, (4, index), comments, write)
    for index, enum in enumerate(file.enum_type):
        write_enum(enum, (5, index), comments, write)


def page():
    text = [INTRODUCTION]
    names = (PROTOS / "names.md").read_text()
    text.append(names[names.index("| field |"):].strip() + "\n\n")
    for file in sorted(compile_protos(), key=lambda file: (not file.service, file.name)):
        write_file(file, text.append)
    return re.sub(r"\n{3,}", "\n\n", "".join(text)).rstrip() + "\n"


def main():
    if len(sys.argv) > 2 or sys.argv[1:] not in ([], ["--check"]):
        print(__doc__.strip())
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    text = page()
    if not sys.argv[1:]:
        PAGE.write_text(text)
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        print("docs/api.md is up to date")
        return 0
    print("docs/api.md is not what the protos say: run scripts/lib/api_reference.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
