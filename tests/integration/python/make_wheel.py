"""Makes a wheel with one module, without anything from a registry: what tests install.

    make_wheel.py FOLDER NAME VERSION

Prints the wheel's path. The module NAME has a `__version__` and the command NAME, which prints it.
"""

import pathlib
import sys
import zipfile


def make_wheel(folder: pathlib.Path, name: str, version: str) -> pathlib.Path:
    """Writes FOLDER/NAME-VERSION-py3-none-any.whl."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f'__version__ = "{version}"\n\n\ndef main():\n    print("{name}", __version__)\n',
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, text in files.items():
            wheel.writestr(member, text)
    return path


if __name__ == "__main__":
    print(make_wheel(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
