"""What node pools that come and go cost on Pollux's published workloads: tables of docs/results.md. See --help."""

import argparse
import json
import pathlib

import page
import simulator

ROOT = pathlib.Path(__file__).resolve().parents[3]
PLOTS = ROOT / "docs" / "results"
# The parameters below were chosen on workloads 1 to 3.
CHOSEN_ON = (1, 2, 3)
REPORTED_ON = (4, 5, 6)
# Decisions as in the live allocator; changes in place as measured, other starts 30 s.
SETTING = {"cluster": "16x4", "policy": "goodput", "round": "events", "restart": "30s", "remaining-work": "known",
           "in-place-times": PLOTS / "in-place-pauses.json", "price": 1}
SPOT_PRICE = 0.3
FOLDERS = {"1.0": "workloads", "0.5": "workloads-0.5"}


def pools(goodput_per_dollar):
    """Pools of up to 16 nodes, of which two are there at the start, that aim at so much speed-up for each node's price."""
    return {"cluster": "2x4", "autoscale": "0..16", "target": "cost", "goodput-per-dollar": goodput_per_dollar}


def market(nodes, lifetime, refusal="5m"):
    """So many spot nodes: half of them go at a time, and then, and every 8 h, there are none to have for a while."""
    return {"spot-nodes": nodes, "spot-price": SPOT_PRICE, "spot-lifetime": lifetime, "spot-together": 0.5,
            "spot-refusal": refusal, "spot-scarcity": "8h"}


# Load, words, options; goals: times cheaper, times fewer node-hours, relative JCT.
ROWS = (
    ("1.0", "on demand, all the time", {}, None),
    ("1.0", "on demand, as jobs need it", pools(0.7), None),
    ("1.0", "mixed, spot nodes live 8 h", pools(2) | market(14, "8h") | {"floor": "on-demand"}, (2.5, None, 1.15)),
    ("1.0", "mixed, spot nodes live 1 h", pools(2) | market(14, "1h") | {"floor": "on-demand"}, None),
    ("1.0", "spot, they live 8 h", pools(1) | market(16, "8h"), (3.3, None, 1.15)),
    ("1.0", "spot, they live 1 h", pools(1.5) | market(16, "1h"), (3.3, None, 1.3)),
    ("1.0", "spot, they live 1 h, refusals of 15 min", pools(1) | market(16, "1h", "15m"), None),
    ("0.5", "on demand, all the time", {}, None),
    ("0.5", "on demand, as jobs need it", pools(0.5), (None, 1.45, 1.15)),
)


def runs_of(artifact, load, options, numbers):
    return [SETTING | options | {"workload": artifact / FOLDERS[load] / f"workload-{n}.csv", "traces": artifact}
            for n in numbers]


def measure(sim, artifact, numbers):
    """One dictionary per row, of sums and means over the workloads."""
    data = []
    for load, words, options, _ in ROWS:
        results = sim.all(runs_of(artifact, load, options, numbers))
        data.append({"load": load, "row": words,
                     "cost": sum(r["cost"] for r in results) / len(results),
                     "node_hours": sum(r["node_hours"] for r in results) / len(results),
                     "avg_jct_s": simulator.mean(r["avg_jct_s"] for r in results),
                     "p50_jct_s": simulator.mean(r["p50_jct_s"] for r in results),
                     "evictions": simulator.mean(r.get("node_evictions", 0) for r in results),
                     "changes": simulator.mean(r["restarts_per_job"] for r in results)})
        print(f"reproduce-cost: load {load}, {words}: {data[-1]}", flush=True)
    return data


def verdict_of(goal, cheaper, fewer_hours, jct):
    if goal is None:
        return "", ""
    wanted_cheaper, wanted_hours, most_jct = goal
    if wanted_cheaper is not None:
        words, met = f"{wanted_cheaper:.2f} times cheaper, JCT up to {most_jct:.2f}", cheaper >= wanted_cheaper
    else:
        words, met = f"{wanted_hours:.2f} times fewer hours, JCT up to {most_jct:.2f}", fewer_hours >= wanted_hours
    return words, page.verdict(met and jct <= most_jct)


def cost_table(data):
    rows = []
    for entry, (load, words, _, goal) in zip(data, ROWS):
        fixed = next(other for other in data if other["load"] == load)
        cheaper = fixed["cost"] / entry["cost"]
        fewer_hours = fixed["node_hours"] / entry["node_hours"]
        jct = entry["avg_jct_s"] / fixed["avg_jct_s"]
        rows.append([load, words, f"{entry['cost'] / fixed['cost']:.3f}", f"{cheaper:.2f}",
                     f"{entry['node_hours']:.0f}", f"{fewer_hours:.2f}", page.seconds(entry["avg_jct_s"]), f"{jct:.3f}",
                     f"{entry['p50_jct_s'] / fixed['p50_jct_s']:.2f}", f"{entry['evictions']:.0f}",
                     f"{entry['changes']:.1f}", *verdict_of(goal, cheaper, fewer_hours, jct)])
    return page.table(["load", "nodes", "cost", "times cheaper", "node-hours", "times fewer", "mean JCT, s", "relative",
                       "p50, relative", "evictions", "changes per job", "goal", ""], rows)


def main():
    parser = argparse.ArgumentParser(prog="reproduce-cost.sh", description=__doc__)
    parser.add_argument("artifact", type=pathlib.Path, help="folder with workloads and traces")
    parser.add_argument("--simulator", required=True, help="the program adaptdl-sim")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "results.md")
    parser.add_argument("--quick", action="store_true", help="one workload; prints the table instead of writing it")
    parser.add_argument("--chosen", action="store_true", help="prints the table of the workloads of the choice")
    arguments = parser.parse_args()
    sim = simulator.Simulator(arguments.simulator)
    artifact = arguments.artifact.resolve()
    if arguments.quick or arguments.chosen:
        print(cost_table(measure(sim, artifact, CHOSEN_ON if arguments.chosen else REPORTED_ON[-1:])))
        return
    data = measure(sim, artifact, REPORTED_ON)
    (PLOTS / "cost.json").write_text(json.dumps(data, indent=1) + "\n")
    page.replace_block(arguments.page, "cost", cost_table(data))


if __name__ == "__main__":
    main()
