#!/usr/bin/env python3
"""The image can be built by any builder: one without BuildKit makes every stage up to the last, needed or not, and each
must find what it copies. So each stage is one that the last needs, and what is copied from the context is in the
repository."""

import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy/docker/Dockerfile"


def instructions(text):
    """(instruction, words) of each one, without comments, with continued lines joined."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name.upper(), shlex.split(rest) if name.upper() in ("FROM", "COPY", "ADD") else []


def stages(text):
    """By name, in order: the stages that each one builds on or copies from, and what it copies from the context."""
    found = {}
    name = None
    for instruction, words in instructions(text):
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


def main():
    found = stages(DOCKERFILE.read_text())
    last = list(found)[-1]
    tracked = subprocess.run(["git", "ls-files", "--cached"], cwd=ROOT, capture_output=True, text=True,
                             check=True).stdout.splitlines()
    failures = [f"the stage {name} is not needed by the last one, {last}" for name in found
                if name not in needed_by(last, found)]
    failures += [f"the stage {name} copies {source}, which is not in the repository"
                 for name, (_, sources) in found.items() for source in sources
                 if source != "." and not any(file == source or file.startswith(source.rstrip("/") + "/")
                                              for file in tracked)]
    print("\n".join(failures) if failures else f"{len(found)} stages are fine")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
