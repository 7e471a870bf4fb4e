#!/usr/bin/env python3
"""The images can be built by any builder: one without BuildKit makes every stage up to the last, needed or not, and each
must find what it copies. So each stage is one that the last needs, and what is copied from the context is in the
repository. A build argument is known only in the stage that declares it, and to FROM if it is declared before the first
one: elsewhere it is empty, without a word. No image runs as root."""

import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILES = [ROOT / "deploy/docker" / name for name in ("Dockerfile", "cuda.Dockerfile")]
VARIABLE = re.compile(r"\$\{?(\w+)")


def instructions(text):
    """(instruction, its text) of each one, without comments, with continued lines joined."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name.upper(), rest


def stages(text):
    """By name, in order: the stages that each one builds on or copies from, and what it copies from the context."""
    found = {}
    name = None
    for instruction, rest in instructions(text):
        words = shlex.split(rest) if instruction in ("FROM", "COPY", "ADD") else []
        if instruction == "FROM":
            name = words[2] if len(words) == 3 else f"stage {len(found)}"
            found[name] = ({words[0]}, [])
        elif instruction in ("COPY", "ADD"):
            origins = [word.partition("=")[2] for word in words if word.startswith("--from=")]
            found[name][0].update(origins)
            if not origins:
                found[name][1].extend(word for word in words[:-1] if not word.startswith("--"))
    return found


def needed_by(name, found):
    needed = {name}
    for other in found[name][0] & found.keys():
        needed |= needed_by(other, found)
    return needed


def unknown_arguments(text):
    """Build arguments that are used where nothing declares them."""
    declared = {rest.partition("=")[0] for instruction, rest in instructions(text) if instruction == "ARG"}
    ahead, known, started = set(), set(), False
    for instruction, rest in instructions(text):
        if instruction == "ARG":
            (known if started else ahead).add(rest.partition("=")[0])
            continue
        if instruction == "FROM":
            known, started = set(), True
        for name in VARIABLE.findall(rest):
            if name in declared and name not in (ahead if instruction == "FROM" else known):
                yield f"{instruction} uses {name}, which is not declared there"


def runs_as_root(text):
    users = [rest for instruction, rest in instructions(text) if instruction == "USER"]
    return not users or users[-1] in ("root", "0")


def problems(text, tracked):
    found = stages(text)
    last = list(found)[-1]
    for name in found.keys() - needed_by(last, found):
        yield f"the stage {name} is not needed by the last one, {last}"
    for name, (_, sources) in found.items():
        for source in sources:
            # What an argument names is an address, or the builder's own.
            if source != "." and not VARIABLE.match(source) and not any(
                    file == source or file.startswith(source.rstrip("/") + "/") for file in tracked):
                yield f"the stage {name} copies {source}, which is not in the repository"
    yield from unknown_arguments(text)
    if runs_as_root(text):
        yield "it runs as root"


def main():
    tracked = subprocess.run(["git", "ls-files", "--cached"], cwd=ROOT, capture_output=True, text=True,
                             check=True).stdout.splitlines()
    failures = [f"{path.name}: {problem}" for path in DOCKERFILES for problem in problems(path.read_text(), tracked)]
    print("\n".join(failures) if failures else f"{len(DOCKERFILES)} files are fine")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
