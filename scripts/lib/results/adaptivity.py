"""Adaptive batch sizes on handwritten digits: table and plot of docs/results.md. See --help."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

import page
import svg

ROOT = pathlib.Path(__file__).resolve().parents[3]
SLOW_LINK = pathlib.Path(__file__).with_name("slow_link.py")
SKIPPED = 77
STOPPED = 143

# The learning rate is meant for batches of this size.
BASE, SIZES = 16, (16, 64, 256, 1024)
DELAY_MS = 10
# What trains until a test accuracy is reached: name, words, arguments, replicas, whether the link is slow.
RACES = {
    "one": ("convolutions, one replica", ["--model", "convolutions", "--target", "0.97"], 1, False),
    "two": ("convolutions, two replicas", ["--model", "convolutions", "--target", "0.97"], 2, False),
    "link": (f"hidden layer, two replicas, {DELAY_MS} ms between them", ["--model", "dense", "--target", "0.945"], 2,
             True),
}
# Passes over the training images at most; for goodput as much progress as that at the base batch size.
EPOCHS = {"one": 3, "two": 3, "link": 30}
# Training samples between tests.
TEST_EVERY = {"one": "400", "two": "400", "link": "800"}
LEARNING_RATE = {"one": "0.005", "two": "0.005", "link": "0.01"}
# Batch 64 for 5 epochs; steps after which the restarted runs stop, with the replicas that they go on with.
ACCURACY = ["--model", "convolutions", "--batch-size", "64", "--base-batch-size", "64", "--lr", "0.01", "--epochs", "5"]
SEGMENTS = ((1, 200), (2, 420), (1, 0))
# What accuracies are compared of, in words.
RUNS = {"plain": "LibTorch alone", "steady": "with the training library, one replica",
        "rescaled": "the same, re-scaled in place from 1 to 2 and to 1 replica",
        "restarted": "the same, by restart"}
PYTHON = {"plain PyTorch": 97.35, "AdaptDL in Python": 97.6}


class Runner:
    def __init__(self, program, data, folder):
        self.program, self.data, self.folder = program, data, folder

    def command(self, arguments, result):
        return [str(self.program), "--data", str(self.data), "--result", str(result)] + arguments

    def on_this_machine(self, command, replicas, environment):
        """Exit code of replicas that are processes, one thread each."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        processes = []
        for rank in range(replicas):
            variables = {"ADAPTDL_NUM_REPLICAS": str(replicas), "ADAPTDL_REPLICA_RANK": str(rank),
                         "ADAPTDL_NUM_NODES": "1", "ADAPTDL_MASTER_ADDR": "127.0.0.1",
                         "ADAPTDL_MASTER_PORT": str(port)}
            processes.append(subprocess.Popen(command, env=environment | variables, stderr=subprocess.PIPE,
                                              text=True))
        errors = [process.communicate()[1] for process in processes]
        codes = [process.returncode for process in processes]
        if any(code not in (0, STOPPED) for code in codes):
            raise RuntimeError(f"{' '.join(command)}: exit codes {codes}\n{''.join(errors)}")
        return max(codes)

    def run(self, name, arguments, replicas=1, slow=False, checkpoint=None):
        result = self.folder / f"{name}.json"
        command = self.command(arguments, result)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ADAPTDL_")}
        environment["OMP_NUM_THREADS"] = "1"
        if checkpoint:
            environment |= {"ADAPTDL_CHECKPOINT_PATH": str(checkpoint)}
        if slow:
            done = subprocess.run([sys.executable, str(SLOW_LINK), "--delay-ms", str(DELAY_MS), "--"] + command,
                                  env=environment, capture_output=True, text=True, check=False)
            if done.returncode == SKIPPED:
                return None
            if done.returncode != 0:
                raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        elif self.on_this_machine(command, replicas, environment) == STOPPED:
            return None
        return json.loads(result.read_text())

    def rescaled_in_place(self, name, arguments):
        """As a job on a cluster of its own, re-scaled while it trains."""
        result = self.folder / f"{name}.json"
        command = [str(self.program.with_name("rescaled_run"))] + self.command(arguments, result)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        changes = [int(line.split()[3]) for line in done.stdout.splitlines()]
        return json.loads(result.read_text()) | {"changes": changes}


def race(runner, race_name, size, seed, epochs=None):
    _, arguments, replicas, slow = RACES[race_name]
    mode = ["--mode", "goodput", "--batch-size", str(BASE), "--max-batch-size", str(max(SIZES))]
    if size != "goodput":
        mode = ["--mode", "fixed", "--batch-size", str(size)]
    return runner.run(f"{race_name}-{size}-{seed}", arguments + mode + [
        "--base-batch-size", str(BASE), "--lr", LEARNING_RATE[race_name], "--seed", str(seed),
        "--test-every", TEST_EVERY[race_name], "--epochs", str(epochs or EPOCHS[race_name])], replicas, slow)


def accuracies(runner, seed):
    """Trains with LibTorch alone, and with the training library: without re-scales, with some in place, as a job on a
    cluster, and from checkpoint to checkpoint."""
    arguments = ACCURACY + ["--seed", str(seed)]
    runner.run(f"plain-{seed}", arguments + ["--mode", "plain"])
    runner.run(f"steady-{seed}", arguments + ["--mode", "fixed"])
    runner.rescaled_in_place(f"rescaled-{seed}", arguments + ["--mode", "fixed"])
    checkpoint = runner.folder / f"checkpoints-{seed}"
    shutil.rmtree(checkpoint, ignore_errors=True)
    for number, (replicas, stop_after) in enumerate(SEGMENTS):
        restarted = runner.run(f"restarted-{seed}",
                               arguments + ["--mode", "fixed", "--stop-after", str(stop_after)], replicas,
                               checkpoint=checkpoint)
        if (restarted is None) != (number + 1 < len(SEGMENTS)):
            raise RuntimeError(f"segment {number + 1} of the restarted run did not end as it should")


def measure(runner, seeds):
    """Times seed by seed, so that what else the machine does hits all alike; accuracies two at a time."""
    started = time.monotonic()

    def say(text):
        print(f"reproduce-adaptivity: {time.monotonic() - started:5.0f} s: {text}", flush=True)

    for seed in range(1, seeds + 1):
        for name in RACES:
            for size in SIZES + ("goodput",):
                result = race(runner, name, size, seed)
                if result is None:
                    say(f"SKIPPED {name}: no network namespaces here")
                    break
                reached = result["reached"]
                say(f"seed {seed}, {name}, {size}: " + (f"{reached['seconds']:.2f} s" if reached else "not reached"))
    measure_accuracies(runner, seeds, say)


def measure_accuracies(runner, seeds, say):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for seed, _ in enumerate(pool.map(lambda seed: accuracies(runner, seed), range(1, seeds + 1)), 1):
            say(f"seed {seed}, accuracy")


def collect(folder, seeds):
    """What the runs have left, in short."""
    data = {"races": {}, "accuracy": []}
    for name in RACES:
        data["races"][name] = {}
        for size in SIZES + ("goodput",):
            runs = [json.loads(path.read_text()) for seed in range(1, seeds + 1)
                    if (path := folder / f"{name}-{size}-{seed}.json").exists()]
            data["races"][name][str(size)] = [{key: run[key] for key in ("reached", "seconds", "samples", "steps")}
                                              for run in runs]
    for seed in range(1, seeds + 1):
        runs = {name: folder / f"{name}-{seed}.json" for name in RUNS}
        if all(path.exists() for path in runs.values()):
            data["accuracy"].append({name: round(100 * json.loads(path.read_text())["final_accuracy"], 3)
                                     for name, path in runs.items()})
    return data


def mean(values):
    return sum(values) / len(values)


def deviation(values):
    middle = mean(values)
    return (sum((value - middle) ** 2 for value in values) / max(len(values) - 1, 1)) ** 0.5


def times(runs):
    return [run["reached"]["seconds"] for run in runs if run["reached"]]


def best_fixed(by_size):
    """The least mean time of the sizes that reach the target with every seed."""
    means = {size: mean(times(runs)) for size, runs in by_size.items()
             if size != "goodput" and runs and len(times(runs)) == len(runs)}
    return min(means.items(), key=lambda item: item[1]) if means else (None, None)


def race_table(data):
    rows = []
    for name, (words, arguments, _, _) in RACES.items():
        by_size = data["races"][name]
        _, best = best_fixed(by_size)
        for size, runs in by_size.items():
            if not runs:
                continue
            reached = [run["reached"] for run in runs if run["reached"]]
            label = "goodput" if size == "goodput" else f"fixed {size}"
            cells = [words, label, f"{len(reached)} of {len(runs)}"]
            if len(reached) == len(runs):
                seconds = [at["seconds"] for at in reached]
                cells += [f"{mean(seconds):.2f} ± {deviation(seconds):.2f}",
                          f"{mean([at['samples'] for at in reached]):,.0f}",
                          f"{mean(seconds) / best:.2f}" if best else ""]
            else:
                cells += ["", "", ""]
            rows.append(cells)
    return page.table(["workload", "batch size", "seeds that got there", "time, s", "samples", "by the best fixed one"],
                      rows)


def goal_table(data):
    rows = []
    for name, limit in (("one", 1.1), ("two", 1.1), ("link", 1.0)):
        by_size = data["races"][name]
        size, best = best_fixed(by_size)
        goodput = times(by_size["goodput"])
        if not best or not goodput:
            continue
        ratio = mean(goodput) / best
        met = len(goodput) == len(by_size["goodput"]) and (ratio <= limit if name != "link" else ratio < limit)
        rows.append([f"{RACES[name][0]}: goodput by the best fixed size, {size}", f"{ratio:.2f}",
                     f"at most {limit:.2f}" if name != "link" else "below 1", page.verdict(met)])
    means = {name: mean([run[name] for run in data["accuracy"]]) for name in RUNS}
    for name, python in PYTHON.items():
        gap = means["steady"] - python
        rows.append([f"accuracy minus that of {name} ({python:.2f} %, one seed)", f"{gap:+.2f}", "within 0.3",
                     page.verdict(abs(gap) <= 0.3)])
    gap = means["steady"] - means["plain"]
    rows.append(["accuracy minus that of LibTorch alone (5 seeds)", f"{gap:+.2f}", "", ""])
    for name, words in (("rescaled", "in place"), ("restarted", "by restart")):
        gap = means[name] - means["steady"]
        rows.append([f"accuracy with re-scales {words} minus without", f"{gap:+.2f}", "within 0.3",
                     page.verdict(abs(gap) <= 0.3)])
    return page.table(["", "measured", "goal", ""], rows)


def accuracy_table(data):
    rows = []
    for name, label in RUNS.items():
        values = [run[name] for run in data["accuracy"]]
        rows.append([label, f"{mean(values):.2f} ± {deviation(values):.2f}",
                     ", ".join(f"{value:.2f}" for value in values)])
    return page.table(["accuracy after 5 epochs at batch 64", "mean, %", "by seed"], rows)


def label_of(size, runs):
    label = "goodput" if size == "goodput" else f"fixed {size}"
    reached = len(times(runs))
    return label if reached in (0, len(runs)) else f"{label} ({reached} of {len(runs)})"


def plot(data):
    panels = []
    for name, (words, arguments, _, _) in RACES.items():
        groups = [(label_of(size, runs), times(runs), f"not within {EPOCHS[name]} epochs", size == "goodput")
                  for size, runs in data["races"][name].items() if runs]
        target = 100 * float(arguments[arguments.index("--target") + 1])
        if any(values for _, values, _, _ in groups):
            panels.append((f"{words}: {target:g} %", groups))
    return svg.dots("Seconds of training until the test accuracy is reached, 5 seeds", panels)


def quick(runner):
    """One seed and one epoch of some of it: does it run?"""
    for name, size in (("one", "goodput"), ("two", 64), ("link", "goodput")):
        result = race(runner, name, size, 1, epochs=1)
        if result is None:
            print(f"reproduce-adaptivity: SKIPPED {name}: no network namespaces here", flush=True)
        elif not result["curve"] or result["steps"] < 1:
            raise RuntimeError(f"{name}: nothing was measured")
        else:
            print(f"reproduce-adaptivity: {name}, {size}: {result['samples']} samples in {result['seconds']:.1f} s, "
                  f"accuracy {result['final_accuracy']:.3f}", flush=True)
    result = runner.rescaled_in_place("rescaled-1", ACCURACY + ["--mode", "fixed"])
    print(f"reproduce-adaptivity: re-scaled in place after {result['changes'][1]} and {result['changes'][2]} steps, "
          f"accuracy {result['final_accuracy']:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="reproduce-adaptivity.sh", description=__doc__)
    parser.add_argument("data", type=pathlib.Path, help="folder with MNIST's 10,000 test images")
    parser.add_argument("--program", type=pathlib.Path, required=True, help="the program adaptivity_bench")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "adaptivity", help="for results")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "results.md")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="only see whether it runs")
    parser.add_argument("--only-accuracy", action="store_true", help="measure the accuracies alone, keep the times")
    parser.add_argument("--only-page", action="store_true", help="from what was measured before")
    arguments = parser.parse_args()
    if not list(arguments.data.glob("*-images-idx3-ubyte*")):
        print(f"reproduce-adaptivity: SKIPPED: no MNIST images in {arguments.data}")
        return SKIPPED
    arguments.folder.mkdir(parents=True, exist_ok=True)
    runner = Runner(arguments.program.resolve(), arguments.data.resolve(), arguments.folder.resolve())
    if arguments.quick:
        quick(runner)
        return 0
    plots = ROOT / "docs" / "results"
    plots.mkdir(exist_ok=True)
    recorded = plots / "adaptivity.json"
    if arguments.only_accuracy:
        measure_accuracies(runner, arguments.seeds, lambda text: print(f"reproduce-adaptivity: {text}", flush=True))
    elif not arguments.only_page:
        for path in arguments.folder.glob("*.json"):
            path.unlink()
        measure(runner, arguments.seeds)
    data = collect(arguments.folder, arguments.seeds)
    if arguments.only_accuracy:
        data["races"] = json.loads(recorded.read_text())["races"]
    recorded.write_text(json.dumps(data, indent=1) + "\n")
    (plots / "adaptivity.svg").write_text(plot(data))
    page.replace_block(arguments.page, "adaptivity goals", goal_table(data))
    page.replace_block(arguments.page, "adaptivity times", race_table(data))
    page.replace_block(arguments.page, "adaptivity accuracy", accuracy_table(data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
