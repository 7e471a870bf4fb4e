#!/usr/bin/env python3
"""Runs AdaptDL's own unit tests against our package, and compares what passed with the table.

    run_tests.py TESTS PACKAGE      TESTS: the folder `adaptdl` of AdaptDL's wheel; PACKAGE: the folder that holds our `adaptdl`

Each file of tests runs in a process of its own, as some make a process group that tests after them, which fork, cannot have.
Exit code 0: all passed but those in the table, which failed.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from typing import Dict, List, Set, Tuple

HERE = pathlib.Path(__file__).resolve().parent
TIMEOUT_SECONDS = 300


def read_table() -> Tuple[Dict[str, str], Dict[str, str], int]:
    """Files that are left out, tests that are left out, each with its reason; and how many tests must pass."""
    with open(HERE / "compat.toml", "rb") as file:
        table = tomllib.load(file)
    files: Dict[str, str] = {}
    tests: Dict[str, str] = {}
    for entry in table["left-out"]:
        assert len(entry["reason"]) > 20, f"a reason of {entry} is missing"
        files.update({name: entry["reason"] for name in entry.get("files", [])})
        tests.update({name: entry["reason"] for name in entry.get("tests", [])})
    return files, tests, table["passed"]


def run_file(source: pathlib.Path, folder: pathlib.Path, environment: Dict[str, str]) -> Tuple[Dict[str, bool], str]:
    """Whether each test of the file passes, and what pytest printed."""
    shutil.copy(source, folder)
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-p", "plugin", "-p", "no:cacheprovider", "-q", "--tb=short", "-W", "ignore",
               "--import-mode=importlib", "-c", os.devnull, "--rootdir", str(folder), f"--junitxml={report}", source.name]
    try:
        run = subprocess.run(command, cwd=folder, env=environment, timeout=TIMEOUT_SECONDS, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        output = run.stdout
    except subprocess.TimeoutExpired as error:
        return {}, f"{source.name} took longer than {TIMEOUT_SECONDS} s\n{error.stdout!r}"
    if not report.exists():
        return {}, output
    results = {}
    for case in ElementTree.parse(report).iter("testcase"):
        wrong = [child for child in case if child.tag in ("failure", "error", "skipped")]
        results[f"{source.name}::{case.get('name')}"] = not wrong
    return results, output


def in_table(test: str, table: Set[str]) -> bool:
    """Whether the test is in the table, by its name or by that of all its variants."""
    return test in table or re.sub(r"\[.*\]$", "", test) in table


def main() -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description="Runs AdaptDL's own unit tests against our package.")
    parser.add_argument("tests", type=pathlib.Path)
    parser.add_argument("package", type=pathlib.Path)
    arguments = parser.parse_args()
    files, tests, must_pass = read_table()
    environment = dict(os.environ, ADAPTDL_COMPAT_TESTS=str(arguments.tests.resolve()),
                       PYTHONPATH=os.pathsep.join([str(arguments.package.resolve()), str(HERE)]))
    for name in [name for name in environment if name.startswith("ADAPTDL_") and name != "ADAPTDL_COMPAT_TESTS"]:
        del environment[name]
    sources = sorted(arguments.tests.rglob("*_test.py"))
    wrong: List[str] = []
    passed, seen = 0, set()
    with tempfile.TemporaryDirectory() as temporary:
        for source in sources:
            seen.add(source.name)
            if source.name in files:
                print(f"{source.name}: left out: {files[source.name]}")
                continue
            results, output = run_file(source, pathlib.Path(temporary), environment)
            failed = {test for test, passes in results.items() if not passes}
            unexpected = sorted(test for test in failed if not in_table(test, set(tests)))
            if not results:
                unexpected = [source.name]
            if unexpected:
                print(output)
            seen.update(results)
            seen.update(re.sub(r"\[.*\]$", "", test) for test in results)
            wrong += [f"{test} fails" for test in unexpected]
            wrong += [f"{test} is in the table and passes" for test in sorted(set(results) - failed)
                      if in_table(test, set(tests))]
            passed += len(results) - len(failed)
            print(f"{source.name}: {len(results) - len(failed)} passed, {len(failed)} left out", flush=True)
    wrong += [f"{name} is in the table, and there is no such test" for name in sorted((set(files) | set(tests)) - seen)]
    if passed < must_pass:
        wrong.append(f"{passed} tests passed; the table says {must_pass}")
    print("\n".join(wrong) or f"all {passed} tests that are not in the table pass")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
