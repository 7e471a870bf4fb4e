"""The default policy on Sia's published workloads and heterogeneous cluster: tables of docs/results.md. See --help."""

import argparse
import json
import pathlib

import page
import simulator

ROOT = pathlib.Path(__file__).resolve().parents[3]
CLUSTER = "aws:6x4,rtx:3x8,dgx-ext:2x8"
SETTING = {"round": "60s", "restart": "per-application"}
# Averages over each family in hours, from table 3 of the Sia paper: mean and p99 completion time.
FAMILIES = {"philly": ("Philly", 0.6, 9.5), "saturn": ("Helios", 0.7, 10.9), "newtrace": ("newTrace", 0.7, 4.6)}
POLICIES = {"sia": ("`sia`, our own run", "sia", "unknown"),
            "known": ("goodput, remaining work known", "goodput", "known"),
            "unknown": ("goodput, remaining work unknown", "goodput", "unknown")}
# Of our own `sia`: mean completion time by setting, and p99 of any single workload.
GOALS = {"known": 0.93, "unknown": 1.0}
SINGLE_P99_GOAL = 1.10
# The policy's parameters were chosen on so many of the first workloads.
CHOSEN_ON = {"philly": 3, "saturn": 3, "newtrace": 2}
HOUR = 3600.0


def run_of(artifact, workload, policy, work):
    return {"workload": workload, "traces": artifact, "cluster": CLUSTER, "policy": policy,
            "remaining-work": work} | SETTING


def measure(sim, artifact, recorded):
    """By family and policy. `recorded`: what `sia` took before; None: it runs again."""
    data = {}
    for family in FAMILIES:
        workloads = sorted((artifact / "workloads" / family).glob("workload-*.csv"))
        data[family] = {"workloads": [path.stem for path in workloads]}
        for name, (_, policy, work) in POLICIES.items():
            if recorded is not None and policy == "sia":
                data[family][name] = recorded[family][name]
                continue
            data[family][name] = simulator.summarise(
                sim.all([run_of(artifact, path, policy, work) for path in workloads]))
        print(f"reproduce-sia: {family} is done", flush=True)
    return data


def goal_table(data):
    rows = []
    for family, (words, published, published_p99) in FAMILIES.items():
        theirs = data[family]["sia"]
        for name in ("known", "unknown"):
            ours = data[family][name]
            pairs = list(zip(ours["by_workload"], theirs["by_workload"]))
            chosen = CHOSEN_ON[family]
            parts = [mean_ratio(part) for part in (pairs, pairs[:chosen], pairs[chosen:])]
            p99 = ours["p99_jct_s"] / theirs["p99_jct_s"]
            single = max(mine["p99_jct_s"] / sias["p99_jct_s"] for mine, sias in pairs)
            fairness, limit = ours["worst_finish_time_fairness"], theirs["worst_finish_time_fairness"]
            rows.append([words, POLICIES[name][0].removeprefix("goodput, "), f"{ours['avg_jct_s'] / HOUR:.3f}",
                         f"{parts[0]:.3f}", f"{GOALS[name]:.2f}", page.verdict(parts[0] <= GOALS[name]),
                         f"{parts[1]:.3f} / {parts[2]:.3f}", f"{ours['avg_jct_s'] / HOUR / published:.2f}",
                         f"{p99:.2f}", page.verdict(p99 <= 1), f"{single:.2f}", page.verdict(single <= SINGLE_P99_GOAL),
                         f"{ours['p99_jct_s'] / HOUR / published_p99:.2f}",
                         f"{fairness:.2f} / {limit:.2f}", page.verdict(fairness <= limit)])
    return page.table(["traces", "goodput with", "mean JCT, h", "ratio to our `sia`", "goal", "",
                       "on workloads chosen on / others", "ratio to the paper", "p99 ratio to our `sia`", "at most 1",
                       "of a single workload", "at most 1.10", "p99 ratio to the paper",
                       "worst FTF, ours / `sia`", ""], rows)


def mean_ratio(pairs):
    """Of mean completion times, ours to theirs."""
    return sum(ours["avg_jct_s"] for ours, _ in pairs) / sum(theirs["avg_jct_s"] for _, theirs in pairs)


def detail_table(data):
    rows = []
    for family, (words, published, published_p99) in FAMILIES.items():
        for name, (policy, _, _) in POLICIES.items():
            s = data[family][name]
            rows.append([f"{words} ({len(data[family]['workloads'])} workloads)", policy,
                         f"{s['avg_jct_s'] / HOUR:.3f}", f"{s['p50_jct_s'] / HOUR:.3f}",
                         f"{s['p99_jct_s'] / HOUR:.2f}", f"{s['makespan_s'] / HOUR:.1f}",
                         f"{s['restarts_per_job']:.1f}", f"{s['worst_finish_time_fairness']:.2f}",
                         f"{100 * s['unfair_fraction']:.1f} %", page.seconds(s["gpu_hours"]),
                         f"{s['decision_ms']['p50']:.2f} / {s['decision_ms']['p95']:.2f}", f"{s['cpu_s']:.1f}"])
        rows.append([words, "Sia, as published", f"{published}", "", f"{published_p99}"] + [""] * 7)
    return page.table(["traces", "policy", "mean, h", "p50, h", "p99, h", "makespan, h", "restarts per job",
                       "worst FTF", "FTF above 1", "GPU hours", "decision p50 / p95, ms", "CPU, s"], rows)


def main():
    parser = argparse.ArgumentParser(prog="reproduce-sia.sh", description=__doc__)
    parser.add_argument("artifact", type=pathlib.Path, help="folder with workloads and traces")
    parser.add_argument("--simulator", required=True, help="the program adaptdl-sim")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "results.md")
    parser.add_argument("--recorded-peers", action="store_true",
                        help="only the default policy runs: figures of `sia` are those recorded in docs/results/sia.json")
    arguments = parser.parse_args()
    recorded = json.loads((ROOT / "docs" / "results" / "sia.json").read_text()) if arguments.recorded_peers else None
    data = measure(simulator.Simulator(arguments.simulator), arguments.artifact.resolve(), recorded)
    (ROOT / "docs" / "results").mkdir(exist_ok=True)
    (ROOT / "docs" / "results" / "sia.json").write_text(json.dumps(data, indent=1) + "\n")
    page.replace_block(arguments.page, "sia goals", goal_table(data))
    page.replace_block(arguments.page, "sia details", detail_table(data))


if __name__ == "__main__":
    main()
