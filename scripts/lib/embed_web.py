#!/usr/bin/env python3
"""Writes files as a C++ source: embed_web.py OUTPUT FILE... (libs/dashboard/assets.h is what it defines)."""

import gzip
import hashlib
import pathlib
import sys

PAGE = "index.html"  # the only one whose address never changes: it names the others by theirs
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def array(name, data):
    rows = (data[at:at + 32] for at in range(0, len(data), 32))
    lines = ",\n".join(",".join(map(str, row)) for row in rows)
    return f"constexpr unsigned char {name}[] = {{{lines}}};\n"


def main():
    output, *names = sys.argv[1:]
    files = {path.name: path.read_bytes() for path in map(pathlib.Path, sorted(names))}
    release = hashlib.sha256(b"".join(files.values())).hexdigest()[:16]
    addresses = {name: f"/{name}" if name == PAGE else f"/{release}/{name}" for name in files}
    for name, address in addresses.items():
        files[PAGE] = files[PAGE].replace(f'"/{name}"'.encode(), f'"{address}"'.encode())
    arrays, entries = [], []
    for number, (name, data) in enumerate(files.items()):
        # The same bytes for the same file, whenever it is built.
        packed = gzip.compress(data, 9, mtime=0)
        etag = hashlib.sha256(data).hexdigest()[:16]
        arrays += [array(f"kPlain{number}", data), array(f"kPacked{number}", packed)]
        entries.append(f'{{"{addresses[name]}", "{TYPES[pathlib.Path(name).suffix]}", "{etag}", Text(kPlain{number}), Text(kPacked{number})}}')
    pathlib.Path(output).write_text(
        '#include "libs/dashboard/assets.h"\n\n#include <cstddef>\n\n'
        "namespace adaptdl::dashboard {\nnamespace {\n\n"
        "template <size_t kSize>\nabsl::string_view Text(const unsigned char (&data)[kSize]) {\n"
        "  return {reinterpret_cast<const char*>(data), kSize};\n}\n\n" + "".join(arrays) +
        "\n}  // namespace\n\nconst std::vector<Asset>& Assets() {\n"
        "  static const auto* const assets = new std::vector<Asset>{\n    " + ",\n    ".join(entries) +
        "};\n  return *assets;\n}\n\n}  // namespace adaptdl::dashboard\n", encoding="utf-8")


if __name__ == "__main__":
    main()
