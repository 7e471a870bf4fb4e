#!/usr/bin/env python3
"""Prints what a safetensors file holds, a line per tensor by name: name, type, shape, values. With the package
safetensors if it is installed, else by what the format's definition says."""

import json
import struct
import sys

CODES = {"F32": "f", "F64": "d", "I64": "q", "I32": "i", "U8": "B", "BOOL": "?"}


def read_with_package(path):
    from safetensors import safe_open  # pylint: disable=import-outside-toplevel

    types = {"float32": "F32", "float64": "F64", "int64": "I64", "int32": "I32", "uint8": "U8", "bool": "BOOL"}
    with safe_open(path, framework="numpy") as file:
        for name in file.keys():
            tensor = file.get_tensor(name)
            yield name, types[str(tensor.dtype)], list(tensor.shape), tensor.flatten().tolist()


def read_by_hand(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        code = CODES[entry["dtype"]]
        values = struct.unpack(f"<{(end - begin) // struct.calcsize(code)}{code}", data[begin:end])
        yield name, entry["dtype"], entry["shape"], list(values)


def main():
    path = sys.argv[1]
    try:
        tensors = list(read_with_package(path))
    except ImportError:
        tensors = list(read_by_hand(path))
    for name, dtype, shape, values in sorted(tensors):
        print(name, dtype, shape, [float(value) for value in values])


main()
