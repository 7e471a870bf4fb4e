"""The shared libraries of a wheel: the package's own, and copies of those that they need, which find each
other wherever the wheel is installed.

Copies get names of their own ("libz-1a2b3c4d.so.1"): another package of the same program may have brought a
library of the same name along, and the loader takes whichever it has met first. The C library and GCC's are
the system's: they are newer there than here, or the wheel's tag keeps it from being installed.
"""

import hashlib
import pathlib
import re
import shutil
import subprocess
from typing import Dict, List, NamedTuple, Sequence, Set, Tuple

# The folder of the copies, beside the package's own libraries.
FOLDER = "_libs"
SYSTEM = re.compile(r"(ld-linux[-.\w]*|lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|stdc\+\+|gcc_s))"
                    r"\.so(\.\d+)*")
_LINE = re.compile(r"^\s*(\S+) (?:=> (\S+|not found) ?)?(?:\(0x[0-9a-f]+\))?$")
_GLIBC = re.compile(r"\bGLIBC_2\.(\d+)")
_GLIBCXX = re.compile(r"\bGLIBCXX_3\.4\.(\d+)")
# Up to which GLIBCXX_3.4.N the systems go that have the C library 2.M or a newer one: (N, M), as the
# policies of PEP 600 say.
_GLIBCXX_SINCE = ((24, 28), (28, 31), (29, 34), (30, 35), (33, 39))


class Bundled(NamedTuple):
    """A Debian source package that copies were taken from, and what it says of its licences."""

    source: str
    version: str
    copyright: pathlib.Path
    files: Tuple[str, ...]


def _output(*command: object) -> str:
    words = [str(word) for word in command]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout


def is_system(name: str) -> bool:
    """Whether a library is left to the system."""
    return SYSTEM.fullmatch(name) is not None


def needed(library: pathlib.Path) -> List[str]:
    """The names of the libraries that one asks for itself."""
    return re.findall(r"\(NEEDED\)\s+Shared library: \[([^]]+)\]", _output("readelf", "-d", library))


def _resolved(library: pathlib.Path) -> Dict[str, pathlib.Path]:
    """All that one needs, also by others, as this machine has it."""
    found: Dict[str, pathlib.Path] = {}
    for line in _output("ldd", library).splitlines():
        match = _LINE.match(line)
        if match is None or match[1].startswith("linux-vdso") or is_system(pathlib.Path(match[1]).name):
            continue
        if match[2] is None or match[2] == "not found":
            raise SystemExit(f"{library} needs {match[1]}, which is not found here")
        found[match[1]] = pathlib.Path(match[2])
    return found


def _own_name(name: str, path: pathlib.Path) -> str:
    stem, dot, rest = name.partition(".so")
    return f"{stem}-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}{dot}{rest}"


def bundle(own: Sequence[pathlib.Path], target: pathlib.Path) -> Dict[str, pathlib.Path]:
    """Puts the libraries `own` into the folder `target`, stripped, and all that they need into a folder of
    it. Returns where each of these was taken from."""
    sources: Dict[str, pathlib.Path] = {}
    for library in own:
        sources.update(_resolved(library))
    names = {name: _own_name(name, path) for name, path in sources.items()}
    copies = target / FOLDER
    copies.mkdir(parents=True)
    for name, path in sources.items():
        _place(path, copies / names[name], names, "$ORIGIN")
        _output("patchelf", "--set-soname", names[name], copies / names[name])
        _check(copies / names[name])
    for library in own:
        _place(library.resolve(), target / library.name, names, f"$ORIGIN/{FOLDER}")
        _check(target / library.name)
    return sources


def _place(source: pathlib.Path, copy: pathlib.Path, names: Dict[str, str], search: str) -> None:
    shutil.copyfile(source, copy)
    copy.chmod(0o755)
    _output("strip", "--strip-unneeded", copy)
    replaced = [word for name in needed(copy) if name in names
                for word in ("--replace-needed", name, names[name])]
    # One by one: patchelf 0.14 mixes up names if it is to do both at once.
    _output("patchelf", "--set-rpath", search, copy)
    if replaced:
        _output("patchelf", *replaced, copy)


def _check(library: pathlib.Path) -> None:
    """What patchelf has done: versions are asked of libraries that are asked for, and these are copies or the
    system's."""
    names = needed(library)
    versions = re.findall(r"\bFile: (\S+)", _output("readelf", "-V", library))
    wrong = [name for name in versions if name not in names]
    wrong += [name for name in names if not is_system(name) and not re.search(r"-[0-9a-f]{8}\.so", name)]
    if wrong:
        raise SystemExit(f"{library.name} asks for {', '.join(wrong)}: patchelf has not done what it should")


def packages_of(sources: Sequence[pathlib.Path]) -> List[Bundled]:
    """The Debian packages that libraries are from."""
    found: Dict[Tuple[str, str], Tuple[pathlib.Path, Set[str]]] = {}
    for path in sources:
        package = _owner(path)
        about = _output("dpkg-query", "-W", "-f=${source:Package} ${source:Version}", package)
        source, version = about.split()
        document = pathlib.Path("/usr/share/doc") / package.partition(":")[0] / "copyright"
        if not document.is_file():
            raise SystemExit(f"{document} is not there, which says what licence {path} has: "
                             f"install {package} anew")
        found.setdefault((source, version), (document, set()))[1].add(path.name)
    return [Bundled(source, version, document, tuple(sorted(files)))
            for (source, version), (document, files) in sorted(found.items())]


def _owner(path: pathlib.Path) -> str:
    """The package of a file; /lib is a link to /usr/lib, and the package may name it by either."""
    places = {str(path), str(path.resolve())}
    places |= {"/usr" + place for place in places if place.startswith("/lib")}
    places |= {place[len("/usr"):] for place in places if place.startswith("/usr/lib")}
    for place in sorted(places):
        asked = subprocess.run(["dpkg-query", "-S", place], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            return asked.stdout.rpartition(": ")[0].partition(",")[0].strip()
    raise SystemExit(f"{path} belongs to no Debian package: its licence is not known, and it is not put into "
                     "a wheel")


def oldest_system(libraries: Sequence[pathlib.Path]) -> int:
    """The minor version of the oldest C library that these work with, by what they ask of it, and of the C++
    library that systems of that time have."""
    texts = [_output("readelf", "-V", library) for library in libraries]
    c_library = max(int(minor) for text in texts for minor in _GLIBC.findall(text))
    cpp_library = max((int(minor) for text in texts for minor in _GLIBCXX.findall(text)), default=0)
    for newest, since in _GLIBCXX_SINCE:
        if cpp_library <= newest:
            return max(c_library, since)
    raise SystemExit(f"GLIBCXX_3.4.{cpp_library} is newer than what this script knows: add it to "
                     "_GLIBCXX_SINCE")
