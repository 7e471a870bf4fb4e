"""Which files of a folder travel with a job: by the rules of gitignore files, as with the command `adaptdl`."""

import re
from typing import Dict, List, NamedTuple, Optional

BUILT_IN = """\
.git
.hg
.svn
__pycache__/
*.py[co]
.ipynb_checkpoints/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.tox/
.venv/
.DS_Store
"""

_CLASSES: Dict[str, str] = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "a-fA-F0-9",
}


class _Rule(NamedTuple):
    takes_in: bool
    folders_only: bool
    # Whether the pattern is about the whole path below the file's folder, not about its last part.
    whole_path: bool
    pattern: "re.Pattern[str]"


class IgnoreRules:
    """The rules of one file, which stand above those of `outer`. `folder`: of the file, "" or "a/b"."""

    def __init__(self, text: str, folder: str = "", outer: Optional["IgnoreRules"] = None) -> None:
        self._outer = outer
        self._prefix = folder + "/" if folder else ""
        lines = text[1:].split("\n") if text.startswith("\ufeff") else text.split("\n")
        rules = [_parse(line) for line in lines]
        self._rules: List[_Rule] = [rule for rule in reversed(rules) if rule is not None]

    def ignores(self, path: str, is_folder: bool) -> bool:
        """Whether this path, relative to the outermost folder, is left out."""
        if path.startswith(self._prefix):
            below = path[len(self._prefix) :]
            name = below.rpartition("/")[2]
            for rule in self._rules:
                if rule.folders_only and not is_folder:
                    continue
                if rule.pattern.fullmatch(below if rule.whole_path else name):
                    return not rule.takes_in
        return self._outer is not None and self._outer.ignores(path, is_folder)


def _parse(line: str) -> Optional[_Rule]:
    line = line[:-1] if line.endswith("\r") else line
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if not line or line.startswith("#"):
        return None
    takes_in = line.startswith("!")
    line = line[takes_in:]
    folders_only = line.endswith("/")
    line = line[: len(line) - folders_only]
    whole_path = "/" in line
    line = line[line.startswith("/") :]
    if not line:
        return None
    pattern = _path_pattern(line.split("/")) if whole_path else _name_pattern(line)
    return _Rule(takes_in, folders_only, whole_path, re.compile(pattern, re.DOTALL))


def _path_pattern(parts: List[str]) -> str:
    pattern = ""
    for at, part in enumerate(parts):
        last = at == len(parts) - 1
        if part == "**":
            # At the end it means all that is in a folder, not the folder; elsewhere any number of folders.
            pattern += ".+" if last else "(?:[^/]+/)*"
        else:
            pattern += _name_pattern(part) + ("" if last else "/")
    return pattern


def _name_pattern(glob: str) -> str:
    pattern, at = "", 0
    while at < len(glob):
        letter = glob[at]
        at += 1
        if letter == "*":
            pattern += "" if pattern.endswith("[^/]*") else "[^/]*"
        elif letter == "?":
            pattern += "[^/]"
        elif letter == "[":
            end, letters = _set_pattern(glob, at)
            # A set without an end matches nothing.
            pattern, at = (pattern + letters, end) if end else ("(?!)", len(glob))
        elif letter == "\\":
            pattern, at = (pattern + re.escape(glob[at]), at + 1) if at < len(glob) else ("(?!)", at)
        else:
            pattern += re.escape(letter)
    return pattern


def _set_pattern(glob: str, at: int) -> "tuple[int, str]":
    """What follows "[" at `at`: where it ends (0: nowhere), and the same for `re`."""
    negated = glob[at : at + 1] in ("!", "^")
    at += negated
    members, first = "", True
    while first or glob[at : at + 1] != "]":
        first = False
        if at >= len(glob):
            return 0, ""
        named = re.match(r"\[:(\w+):\]", glob[at:])
        if named and named.group(1) in _CLASSES:
            members += _CLASSES[named.group(1)]
            at += named.end()
            continue
        at += glob[at] == "\\"
        low = glob[at : at + 1]
        at += 1
        high = low
        if glob[at : at + 1] == "-" and glob[at + 1 : at + 2] not in ("", "]"):
            at += 1
            at += glob[at] == "\\"
            high = glob[at : at + 1]
            at += 1
        if not low or not high:
            return 0, ""
        # One that runs backwards has nothing in it.
        if low <= high:
            members += f"{re.escape(low)}-{re.escape(high)}"
    letters = f"[{'^/' if negated else ''}{members}]" if members else ("[^/]" if negated else "(?!)")
    return at + 1, letters
