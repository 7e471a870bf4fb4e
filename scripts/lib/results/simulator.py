"""Runs adaptdl-sim on many workloads, and sums up what it says."""

import concurrent.futures
import csv
import io
import json
import subprocess

PARALLEL = 2
# What a table shows, by workload; the mean over workloads is reported.
FIELDS = ("avg_jct_s", "p50_jct_s", "p99_jct_s", "makespan_s", "restarts_per_job", "gpu_hours",
          "worst_finish_time_fairness", "unfair_fraction", "decisions", "cpu_s")


class Simulator:
    def __init__(self, program):
        self.program = program

    def arguments(self, run):
        command = ["nice", self.program, "replay"]
        for option, value in run.items():
            command += [f"--{option}"] if value is True else [f"--{option}", str(value)]
        return command

    def text(self, run):
        done = subprocess.run(self.arguments(run), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(self.arguments(run))}: {done.stderr.strip()}")
        return done.stdout

    def one(self, run):
        return json.loads(self.text(run | {"output": "json"}))

    def jobs(self, run):
        """One dictionary per job."""
        return list(csv.DictReader(io.StringIO(self.text(run | {"output": "csv"}))))

    def all(self, runs):
        """Results in the order of the runs, a few at a time."""
        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            return list(pool.map(self.one, runs))


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def percentile(values, p):
    """Linear between two values, as the simulator does it."""
    values = sorted(values)
    position = p / 100 * (len(values) - 1)
    low = int(position)
    high = min(low + 1, len(values) - 1)
    return values[low] + (position - low) * (values[high] - values[low])


def summarise(results):
    """Means over workloads; the fairness of the worst job of all; decision times as means of percentiles."""
    summary = {field: mean(result[field] for result in results) for field in FIELDS}
    summary["worst_finish_time_fairness"] = max(r["worst_finish_time_fairness"] for r in results)
    summary["decision_ms"] = {p: mean(r["decision_ms"][p] for r in results) for p in ("p50", "p95", "max")}
    summary["by_workload"] = [{field: round(r[field], 4) for field in FIELDS} for r in results]
    return summary
