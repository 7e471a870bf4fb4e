"""Accuracy of programs on the Python package: runs the test at full length, and writes the table of docs/results.md. See
scripts/test-python-accuracy.sh --help."""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

import page

ROOT = pathlib.Path(__file__).resolve().parents[3]
TEST = ROOT / "build/release/tests/integration_python_accuracy_test"
RECORD = ROOT / "docs/results/python-accuracy.json"
LINE = re.compile(r"^accuracy of (\w+), seed \d+, (.+): ([\d.]+) %$")
SKIPPED = 77
PROGRAMS = {"tutorial": "tutorial, batches of 64", "tutorial_goodput": "tutorial, by goodput",
            "example": "`examples/python-mnist`, batches of 64", "example_goodput": "`examples/python-mnist`, by goodput"}
WAYS = {"plain": "plain loop", "plain, another order": "plain loop, samples in another order", "alone": "one replica",
        "adaptdl run -n 3": "`adaptdl run -n 3`", "cluster": "cluster: 1, 2, 3 replicas, one killed, 1"}


def measure(seeds, epochs):
    """By program and way, the accuracies of all seeds. Fails as the test does."""
    environment = dict(os.environ, ADAPTDL_ACCURACY_SEEDS=str(seeds), ADAPTDL_ACCURACY_EPOCHS=str(epochs))
    accuracies = {}
    with subprocess.Popen([TEST], env=environment, stdout=subprocess.PIPE, text=True, errors="replace") as test:
        for line in test.stdout:
            print(line, end="", flush=True)
            found = LINE.match(line)
            if found:
                accuracies.setdefault(found[1], {}).setdefault(found[2], []).append(float(found[3]))
    if test.returncode:
        sys.exit(test.returncode)
    return accuracies


def table(accuracies):
    rows = []
    for program, ways in accuracies.items():
        plain = statistics.mean(ways["plain"])
        for way, values in ways.items():
            mean = statistics.mean(values)
            rows.append([PROGRAMS[program], WAYS[way], f"{mean:.2f}", f"{mean - plain:+.2f}" if way != "plain" else "",
                         ", ".join(f"{value:.2f}" for value in values)])
    return page.table(["program", "way", "accuracy, %", "minus plain", "by seed"], rows)


def summary(accuracies):
    """The most that any way of ours is off."""
    differences = [statistics.mean(values) - statistics.mean(ways["plain"]) for ways in accuracies.values()
                   for way, values in ways.items() if not way.startswith("plain")]
    return f"{len(differences)} cases, from {min(differences):+.2f} to {max(differences):+.2f} points beside the plain loop"


def main():
    parser = argparse.ArgumentParser(prog="scripts/test-python-accuracy.sh")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5, help="a multiple of 5: the replicas change after each fifth")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/results.md")
    arguments = parser.parse_args()
    accuracies = measure(arguments.seeds, arguments.epochs)
    if not accuracies:
        print("python-accuracy: SKIPPED: MNIST's test images are not in ../shared/data/mnist", file=sys.stderr)
        return SKIPPED
    if arguments.page.is_file():
        RECORD.write_text(json.dumps({"epochs": arguments.epochs, "accuracies": accuracies}, indent=1) + "\n")
        page.replace_block(arguments.page, "python accuracy", table(accuracies))
    print(f"python-accuracy: {summary(accuracies)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
