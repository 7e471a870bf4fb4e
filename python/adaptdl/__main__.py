"""python -m adaptdl: says which version this is, what it has found, and whether that works."""

import argparse
import json
import sys

from adaptdl import _report


def main() -> int:
    """The exit code: 1 where something that training needs is missing or broken."""
    parser = argparse.ArgumentParser(
        prog="python -m adaptdl", description="Says which version of the package this is, what it has found, "
        "and whether that works. Exit code 1: something that training needs does not.")
    parser.add_argument("--json", action="store_true", help="for programs")
    arguments = parser.parse_args()
    report = _report.make()
    print(json.dumps(report, indent=2) if arguments.json else "\n".join(_report.lines(report)))
    return 1 if report["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
