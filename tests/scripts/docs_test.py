#!/usr/bin/env python3
"""Every path that a document names exists: relative links with their anchors, scripts/... in text and code, and, in docs and
READMEs, files and folders of the repository in backticks."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
SCRIPT = re.compile(r"(?<![\w./-])((?:scripts|deploy|docs|examples|\.ci)/[\w./-]*\w)")
QUOTED = re.compile(r"`([\w./-]+)`")
SOURCE = re.compile(r"(?:[\w-]+/)*[\w-]+\.(?:cc|h|py|sh|proto|toml|cmake|pml)")
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def files():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


FILES = files()
TOP = {file.partition("/")[0] for file in FILES if "/" in file}


def documents():
    return [ROOT / file for file in FILES if file.endswith(".md")]


def anchors(document):
    """The anchors of a document's headings, as GitHub forms them."""
    text = CODE_BLOCK.sub("", document.read_text())
    for heading in re.findall(r"^#+ +(.*)$", text, re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def missing(quoted, document):
    """Whether what a document has in backticks looks like a path of the repository and is none.

    Paths from the root count, also those of programs that are built from a source. A README speaks of its own folder.
    Sources may be named by the end of their path.
    """
    home = "" if document.name != "README.md" else document.parent.relative_to(ROOT).as_posix() + "/"
    top, _, rest = quoted.rstrip("/").partition("/")
    if top in TOP and rest:
        program = "/" + rest.rpartition("/")[2] + ".cc"
        return not ((ROOT / quoted).exists() or (ROOT / home / quoted).exists() or
                    any(file.startswith(top + "/") and file.endswith(program) for file in FILES))
    if home and quoted.endswith("/"):
        return not (ROOT / home / quoted).is_dir() and not (ROOT / quoted).is_dir()
    if SOURCE.fullmatch(quoted):
        home = "" if home == "./" else home
        return not any(file.startswith(home) and ("/" + file).endswith("/" + quoted) for file in FILES)
    return False


def problems(document):
    text = document.read_text()
    if document.name == "README.md" or document.parent == ROOT / "docs":
        for quoted in sorted(set(QUOTED.findall(CODE_BLOCK.sub("", text)))):
            if missing(quoted, document):
                yield f"names `{quoted}`: no such file or folder"
    for link in LINK.findall(CODE_BLOCK.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists():
            yield f"link to {link}: no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"link to {link}: no such heading"
    for path in sorted(set(SCRIPT.findall(text))):
        if not (ROOT / path).exists() and not (document.parent / path).exists():
            yield f"names {path}: no such file"


def main():
    found = documents()
    failures = [f"{d.relative_to(ROOT)}: {p}" for d in found for p in problems(d)]
    print("\n".join(failures) if failures else f"{len(found)} documents are fine")
    return 1 if failures or not found else 0


if __name__ == "__main__":
    sys.exit(main())
