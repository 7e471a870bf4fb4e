#!/usr/bin/env python3
"""Checks the structure of the sources by the rules of structure.toml beside this file: which folder may include which,
how long files are, that folders have a README, and where LibTorch and the machine's clock may be used.

    structure.py [ROOT]    ROOT: the repository to check. Default: the one that this file is in
"""

import fnmatch
import pathlib
import re
import subprocess
import sys
import tomllib

RULES = pathlib.Path(__file__).with_suffix(".toml")
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
COMMENT = re.compile(r"//.*$", re.MULTILINE)
# What generated headers are included as, and what they are made from.
PROTOCOL = re.compile(r"adaptdl/v\d+/.*\.pb\.h$")
PUBLIC_HEADERS = "libs/elastic/include"


def folder_of(file):
    return file.rpartition("/")[0] or "."


def is_within(path, places):
    """Whether `path` is one of `places` or beneath one; a place may be a pattern of a file's path."""
    return any(path == place or path.startswith(place + "/") or fnmatch.fnmatch("/" + path, place)
               for place in places)


class Gaps:
    """What a rule is not kept by yet. Each must be needed."""

    def __init__(self, rule, entries):
        self.rule, self.entries, self.used = rule, entries, set()

    def covers(self, path):
        found = [entry for entry in self.entries if is_within(path, [entry])]
        self.used.update(found)
        return bool(found)

    def unused(self):
        for entry in self.entries:
            if entry not in self.used:
                yield f"{entry}: keeps the rule; take it out of [{self.rule}] gaps in {RULES.name}"


class Layers:
    """The folders of the table, and what each may include."""

    def __init__(self, uses, parts):
        self.uses, self.parts = uses, parts

    def problems(self):
        for folder, used in self.uses.items():
            for name in used:
                if name != "*" and name not in self.uses:
                    yield f"[uses] of {folder} in {RULES.name} names {name}, which is not there"
            if any(folder in self.reachable(name) for name in used if name in self.uses):
                yield f"[uses] in {RULES.name} leads from {folder} back to {folder}"

    def layer_of(self, folder):
        """The entry that a folder belongs to: itself, or what it is a part of. None: nobody has said."""
        if folder in self.uses:
            return folder
        for owner, parts in self.parts.items():
            if folder.startswith(owner + "/") and ("*" in parts or folder[len(owner) + 1:] in parts):
                return owner
        return None

    def reachable(self, layer, seen=None):
        seen = seen if seen is not None else set()
        for name in [layer, *self.uses.get(layer, [])]:
            if name not in seen:
                seen.add(name)
                self.reachable(name, seen)
        return seen

    def allows(self, user, used):
        reachable = self.reachable(user)
        return used in reachable or "*" in reachable


class Tree:
    """The sources of a repository."""

    def __init__(self, root, files):
        self.root = pathlib.Path(root)
        self.files = sorted(file for file in files if file.endswith((".cc", ".h")))
        self.known = set(files)
        self.texts = {file: (self.root / file).read_text() for file in self.files}

    def folders(self):
        return sorted({folder_of(file) for file in self.files})

    def resolve(self, file, name):
        """The folder of what `file` includes as `name`; None: it is not of this repository."""
        if PROTOCOL.match(name):
            return "proto"
        for path in (name, f"{PUBLIC_HEADERS}/{name}", f"{folder_of(file)}/{name}"):
            if path in self.known:
                return folder_of(path)
        return None


def check_includes(tree, rules):
    layers = Layers(rules["uses"], rules["parts"])
    gaps = Gaps("includes", rules["includes"]["gaps"])
    yield from layers.problems()
    unknown = [folder for folder in tree.folders() if layers.layer_of(folder) is None]
    for folder in unknown:
        yield f"{folder}: {RULES.name} does not say what it may include; add it to [uses] or [parts]"
    for file in tree.files:
        user = layers.layer_of(folder_of(file))
        for name in INCLUDE.findall(tree.texts[file]):
            folder = tree.resolve(file, name)
            used = layers.layer_of(folder) if folder else None
            if not user or not used or layers.allows(user, used) or gaps.covers(f"{user} -> {used}"):
                continue
            yield f"{file}: includes {name}, but {user} may not know {used} ([uses] in {RULES.name})"
    yield from gaps.unused()


def check_lines(tree, rules):
    gaps = Gaps("lines", rules["lines"]["gaps"])
    for file in tree.files:
        most = rules["lines"]["test" if file.startswith("tests/") else "source"]
        lines = len(tree.texts[file].splitlines())
        if lines > most and not gaps.covers(file):
            yield f"{file}: has {lines} lines; the most is {most}: split it"
    yield from gaps.unused()


def check_readmes(tree, rules):
    gaps = Gaps("readmes", rules["readmes"]["gaps"])
    folders = tree.folders()
    for folder in folders:
        mirrors = folder.startswith("tests/") and any(
            other == folder[len("tests/"):] or other.startswith(folder[len("tests/"):] + "/") for other in folders)
        if mirrors or f"{folder}/README.md" in tree.known or gaps.covers(folder):
            continue
        yield f"{folder}: has no README.md; say in a few lines what lives there and what may not"
    yield from gaps.unused()


def check_places(tree, rule, settings, remedy):
    """What matches the rule's pattern is in the allowed places only."""
    gaps = Gaps(rule, settings["gaps"])
    pattern = re.compile(settings["pattern"], re.MULTILINE)
    for file in tree.files:
        if is_within(file, settings["allowed"]):
            continue
        found = pattern.search(COMMENT.sub("", tree.texts[file]))
        if found and not gaps.covers(file):
            yield f"{file}: has {found[0].strip()}; {remedy} ([{rule}] in {RULES.name})"
    yield from gaps.unused()


def check(root, files, rules):
    """All that is wrong with these files of the repository, one line each."""
    tree = Tree(root, files)
    return [*check_includes(tree, rules), *check_lines(tree, rules), *check_readmes(tree, rules),
            *check_places(tree, "libtorch", rules["libtorch"], "LibTorch is for the places allowed"),
            *check_places(tree, "clocks", rules["clocks"], "have a clock passed in (libs/base/clock.h)")]


def list_files(root):
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root,
                            capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if (pathlib.Path(root) / line).is_file()]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else RULES.parents[2])
    problems = check(root, list_files(root), tomllib.loads(RULES.read_text()))
    print("\n".join(problems) if problems else "the structure is fine")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
