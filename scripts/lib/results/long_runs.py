"""The long tests: runs those that the present code has not passed, and writes the table of docs/results.md. See
scripts/test-long.sh --help."""

import argparse
import dataclasses
import datetime
import json
import pathlib
import re
import subprocess
import sys
import time

import page

ROOT = pathlib.Path(__file__).resolve().parents[3]
RECORDS = ROOT / "docs/results/long-runs.json"
RESULTS = ROOT / "docs/results.md"
LOGS = ROOT / "build/long"
SKIPPED = 77


# What every program is made of.
PROGRAMS = ("CMakeLists.txt", "CMakePresets.json", "cmake", "libs", "proto", "services", "scripts/build.sh",
            "scripts/packages.txt", "scripts/setup.sh")


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    what: str
    command: tuple
    # Lines of its output that say what came out: these expressions' first group of each match.
    figures: str
    # Files and folders that it is made of, besides its command: what it has shown holds until one of them changes.
    depends: tuple


PARTS = (
    Part("chaos", "200 re-scales and 100 kills of replicas, workers and the supervisor under a job that trains",
         ("scripts/test-chaos.sh", "--store-kills", "0", "--job", "cpp"), r"^(\d+ steps, .*rollbacks.*)$",
         (*PROGRAMS, "tests/integration", "tests/libs/elastic")),
    Part("python-chaos", "100 re-scales and 50 kills, also of processes that read data, under a job of the Python package",
         ("scripts/test-chaos.sh", "--store-kills", "0", "--job", "python", "--rescales", "100", "--kills", "50"),
         r"^(\d+ steps, .*rollbacks.*)$", (*PROGRAMS, "python", "tests/integration")),
    Part("store", "300 kills of a supervisor, some of them on a disk that fails",
         ("scripts/test-chaos.sh", "--rescales", "0", "--kills", "0"), r"^(\d+ kills, .*)$",
         (*PROGRAMS, "tests/integration")),
    Part("spot", "ten nodes of a job that trains on digits, taken back by their cloud with 30 s of notice, and killed",
         ("scripts/test-spot.sh",), r"^(\d+ steps, none lost.*)$",
         (*PROGRAMS, "examples/mnist", "tests/integration", "tests/services/worker/notices")),
    Part("code", "a folder of 50,000 files and 1 GiB travels with its job, the connection cut and the supervisor killed on the way",
         ("scripts/test-code.sh",), r"^(\d+ files, .*)$",
         (*PROGRAMS, "cli", "examples/python-mnist", "python", "tests/integration/code_acceptance")),
    Part("kubernetes-faults", "the operator with jobs that train: killed and stopped at each step of re-scales, a minute without an API server",
         ("scripts/test-kubernetes.sh", "--faults"), r"^faults: (.*)$", (*PROGRAMS, "deploy/kubernetes", "tests/integration", "tests/kube")),
    Part("kubernetes-scale", "the operator takes over 1,000 jobs with 5,000 pods, and has nothing to write for five minutes but hints",
         ("scripts/bench-kubernetes.sh",), r"^kubernetes: (.*)$",
         (*PROGRAMS, "bench/kubernetes_bench.cc", "bench/load", "deploy/kubernetes", "tests/integration/kubernetes/scale", "tests/kube")),
    Part("fuzz", "made-up inputs for every parser, ten minutes each", ("scripts/fuzz.sh",),
         r"^fuzz: (\w+, \d+ s: \d+ inputs)", (*PROGRAMS, "tests/fuzz")),
    Part("tsan", "ThreadSanitizer: the tests that can run under it", ("scripts/test-sanitizers.sh", "tsan"),
         r"(\d+% tests passed.*)", (*PROGRAMS, "cli", "examples", "simulator", "tests")),
    Part("asan", "AddressSanitizer and UndefinedBehaviorSanitizer: all tests", ("scripts/test-sanitizers.sh", "asan"),
         r"(\d+% tests passed.*)", (*PROGRAMS, "cli", "examples", "simulator", "tests")),
    Part("model", "the model of in-place re-scaling: its mutants, and the large sizes", ("scripts/check-model.sh",),
         r"^model: (.*states.*)$", ("tests/model",)),
    Part("upgrade", "from the version that scripts/lib/released names, under a running job",
         ("scripts/test-upgrade.sh",), r"^upgrade: done: (.*)$", (*PROGRAMS, "cli", "scripts/lib/released")),
    Part("frameworks", "the Python package with PyTorch Lightning and Hugging Face's Trainer", ("scripts/test-frameworks.sh",),
         r"^(Ran \d+ tests)", (*PROGRAMS, "python", "tests/python/frameworks", "tests/integration",
                               "examples/python-lightning", "examples/python-transformers", "docs/python-frameworks.md")),
    Part("python-accuracy", "programs written for AdaptDL learn on the Python package as a plain loop does, three seeds",
         ("scripts/test-python-accuracy.sh",), r"^python-accuracy: (.*)$",
         (*PROGRAMS, "python", "tests/integration", "examples/python-mnist", "scripts/lib/results/python_accuracy.py")),
    Part("demo", "the demo, from start to end", ("scripts/demo.sh",), r"^([ab]: .*accuracy.*)$",
         (*PROGRAMS, "cli", "examples")),
    Part("package", "the training library's package in a fresh Debian: a program is built with it, and trains",
         ("scripts/package.sh", "--check-training", "libadaptdl-dev"), r"^(slope .*)$",
         (*PROGRAMS, "deploy/debian", "scripts/package.sh", "tests/package", "tests/packaging")),
    Part("image", "the image from the source, and the compose cluster from it",
         ("scripts/test-compose.sh", "--from-source"), r"^compose: (passed)$",
         (*PROGRAMS, ".dockerignore", "cli", "deploy", "docker-compose.yml", "examples", "scripts/lib")),
)


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def read_records():
    return json.loads(RECORDS.read_text()) if RECORDS.exists() else {}


def holds_still(part, record):
    """Whether nothing but documents has changed since then in what the part is made of."""
    return git("diff", "--quiet", record["commit"], "HEAD", "--", part.command[0], *part.depends,
               ":(exclude)*.md").returncode == 0


def run(part):
    """Its output goes to the terminal and to a file. Returns the exit code, the seconds and the output."""
    LOGS.mkdir(parents=True, exist_ok=True)
    lines = []
    begin = time.monotonic()
    with open(LOGS / f"{part.name}.log", "w") as log, subprocess.Popen(
            part.command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace") as process:
        for line in process.stdout:
            lines.append(line)
            log.write(line)
            log.flush()
            print(line, end="", flush=True)
    return process.returncode, time.monotonic() - begin, "".join(lines)


def write_page(records):
    rows = [[part.name, part.what, record["date"], f"`{record['commit'][:7]}`", f"{record['seconds'] / 60:.0f}",
             "; ".join(record["figures"])]
            for part in PARTS if (record := records.get(part.name))]
    page.replace_block(RESULTS, "long runs", page.text_table(
        ["part", "what", "passed on", "code", "minutes", "what came out"], rows))


def record_pass(part, commit, seconds, output):
    records = read_records()
    records[part.name] = {"date": datetime.date.today().isoformat(), "commit": commit, "seconds": round(seconds),
                          "figures": re.findall(part.figures, output, re.MULTILINE)}
    RECORDS.write_text(json.dumps(records, indent=1) + "\n")
    write_page(records)


def show(records):
    for part in PARTS:
        record = records.get(part.name)
        state = "not passed yet"
        if record:
            state = f"passed on {record['date']} at {record['commit'][:7]}"
            state += "" if holds_still(part, record) else ", other code than the present one"
        print(f"{part.name:15} {part.what}\n         {state}")


def choose(names, records):
    if names:
        return [part for part in PARTS if part.name in names]
    return [part for part in PARTS if part.name not in records or not holds_still(part, records[part.name])]


def main():
    parser = argparse.ArgumentParser(prog="scripts/test-long.sh")
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    unknown = set(options.parts) - {part.name for part in PARTS}
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; the parts are "
                     f"{', '.join(part.name for part in PARTS)}")
    if options.list:
        show(read_records())
        return 0
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)docs").stdout
    if changed:
        parser.error(f"commit first; these have changed:\n{changed}")
    failed = []
    for part in choose(options.parts, read_records()):
        print(f"long: {part.name}: {part.what}", flush=True)
        commit = git("rev-parse", "HEAD").stdout.strip()
        code, seconds, output = run(part)
        if code == 0:
            record_pass(part, commit, seconds, output)
            print(f"long: {part.name} passed in {seconds / 60:.0f} minutes, recorded in {RESULTS.relative_to(ROOT)}")
        else:
            failed.append(part.name)
            print(f"long: error: {part.name} " + ("was skipped: it can't run here" if code == SKIPPED else
                  f"failed with {code}") + f"; see {(LOGS / part.name).relative_to(ROOT)}.log", file=sys.stderr)
    missing = [part.name for part in choose([], read_records())]
    print("long: every part has passed" if not missing else f"long: not passed yet: {', '.join(missing)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
