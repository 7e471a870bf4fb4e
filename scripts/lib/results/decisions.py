"""What a decision costs: table and plot of docs/results.md. See --help."""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import page
import svg

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Jobs, GPUs, types of GPU; the goal in ms for a decision from nothing, and for one after new hints; what others need.
SIZES = (
    (16, 64, 1, 0.1, None, ""),
    (160, 64, 1, 0.25, None, "Pollux 7 to 9 s"),
    (160, 256, 1, 2, None, ""),
    (1_000, 2_048, 1, 5, None, "Pollux at least 1,100 s, extrapolated; Sia, with fewer jobs, 5 s published, 54 ms without the modelling of its "
     "integer program"),
    (5_000, 10_000, 1, 200, None, ""),
    (1_000, 2_048, 4, None, None, ""),
    (5_000, 10_000, 4, None, None, ""),
    (20_000, 50_000, 4, 500, 100, "before prices were found on convex hulls: 54,000, 142,000 and 52,000 ms"),
)
STARTS = ("cold", "warm", "hints")
REPETITIONS = 5


def measure(build, size, quick):
    """CPU milliseconds by start, the parts of the bound reached and lost, and the peak of the memory in MiB; each size in a process of
    its own."""
    jobs, gpus, types = size[:3]
    command = [str(build / "bench/allocator_bench"), "--benchmark_format=json",
               f"--benchmark_filter=^decide/.*/jobs:{jobs}/gpus:{gpus}/types:{types}$"]
    command += ["--benchmark_min_time=0.001"] if quick else [f"--benchmark_repetitions={REPETITIONS}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command}: exit code {process.returncode}")
    runs = json.loads(text)["benchmarks"]
    result = {"MiB": usage.ru_maxrss / 1024}
    for start in STARTS:
        own = [run for run in runs if f"decide/{start}/" in run["name"] and
               (quick or run.get("aggregate_name") == "median")]
        result[start] = own[0]["cpu_time"]
        result[f"{start}_gap"] = 1 - own[0]["of_bound"]
        result[f"{start}_lost"] = own[0]["lost_in_placement"]
    return result


def shown(milliseconds):
    return f"{milliseconds:.2f}" if milliseconds < 1 else f"{milliseconds:.1f}" if milliseconds < 10 else f"{milliseconds:,.0f}"


def verdict(size, result):
    parts = [page.verdict(result[start] <= goal) + (f" ({start})" if size[4] else "")
             for start, goal in (("cold", size[3]), ("hints", size[4])) if goal]
    return ", ".join(parts)


def goal(size):
    return "; ".join(f"{value:g}" + (f" {start}" if size[4] else "")
                     for start, value in (("cold", size[3]), ("hints", size[4])) if value)


def name(size):
    jobs, gpus, types = size[:3]
    return f"{jobs:,} x {gpus:,}" + (", four types" if types > 1 else "")


def table(results):
    rows = [(name(size), *(shown(result[start]) for start in STARTS), f"{result['MiB']:,.0f}", goal(size),
             verdict(size, result), size[5]) for size, result in zip(SIZES, results)]
    worst = max(result[f"{start}_gap"] for result in results for start in STARTS)
    lost = max(result[f"{start}_lost"] for result in results for start in STARTS)
    return (page.table(("jobs x GPUs", "cold, ms", "warm, ms", "hints, ms", "memory, MiB", "goal, ms", "", "others"), rows) +
            f"\n\nEvery decision is within {100 * worst:.2g} % of the bound that it knows, and loses at most {100 * lost:.1g} % in placement.")


def plot(results):
    def line(types, start):
        return [(size[0] * size[1], result[start]) for size, result in zip(SIZES, results) if size[2] == types]

    return svg.growth("What a decision costs, by jobs x GPUs", "jobs x GPUs (logarithmic)", "CPU time (logarithmic)", [
        ("one GPU type, cold", svg.BLUE, "", line(1, "cold")), ("one type, hints", svg.BLUE, "6 3", line(1, "hints")),
        ("four types, cold", svg.ORANGE, "", line(4, "cold")), ("four types, hints", svg.ORANGE, "6 3", line(4, "hints"))],
        [(size[0] * size[1], size[3]) for size in SIZES if size[3]], "goals, cold")


def main():
    parser = argparse.ArgumentParser(prog="reproduce-decisions.sh", description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder of a build")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "results.md")
    parser.add_argument("--quick", action="store_true", help="only see whether it runs")
    parser.add_argument("--only-page", action="store_true", help="from what was measured before")
    arguments = parser.parse_args()
    plots = ROOT / "docs" / "results"
    recorded = plots / "decisions.json"
    if not arguments.only_page:
        results = []
        for size in SIZES[:2] if arguments.quick else SIZES:
            results.append(measure(arguments.build, size, arguments.quick))
            print(f"reproduce-decisions: {name(size)}: " + ", ".join(f"{start} {shown(results[-1][start])} ms" for start in STARTS) +
                  f", {results[-1]['MiB']:.0f} MiB", flush=True)
        if arguments.quick:
            return 0
        recorded.write_text(json.dumps(results, indent=1) + "\n")
    results = json.loads(recorded.read_text())
    page.replace_block(arguments.page, "decisions", table(results))
    (plots / "decisions.svg").write_text(plot(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
