#!/usr/bin/env python3
"""Every path that a document names exists: relative links with their anchors, and scripts/... in text and code."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
SCRIPT = re.compile(r"(?<![\w./-])((?:scripts|deploy|docs|examples|\.ci)/[\w./-]*\w)")
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def documents():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def anchors(document):
    """The anchors of a document's headings, as GitHub forms them."""
    text = CODE_BLOCK.sub("", document.read_text())
    for heading in re.findall(r"^#+ +(.*)$", text, re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def problems(document):
    text = document.read_text()
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
