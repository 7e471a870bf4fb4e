"""What it brings to know what earlier jobs of a kind took: tables of docs/results.md. See --help."""

import argparse
import json
import pathlib

import page
import pollux
import sia
import simulator

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Deviation of the logarithm of a job's work within its application: a factor of 1.6 and one of 2.7, either way.
SCATTERS = ("0.5", "1.0")
KNOWLEDGE = {
    "unknown": {"remaining-work": "unknown"},
    "history": {"remaining-work": "history"},
    "earlier": {"remaining-work": "history", "earlier-jobs": "10"},
    "known": {"remaining-work": "known"},
}
WORDS = {"history": "history, none at first", "earlier": "history, ten earlier jobs of each", "known": "known"}


def workloads(pollux_artifact, sia_artifact):
    """By family: its name, the runs of its workloads, and on how many of the first the policy's parameters were chosen."""
    families = {}
    for load in pollux.LOADS:
        runs = [pollux.run_of(pollux_artifact, load, n, "goodput", pollux.PEERS) for n in pollux.WORKLOADS]
        families[load] = (f"Pollux's, load {load}", runs, len(pollux.CHOSEN_ON))
    for family, (words, _, _) in sia.FAMILIES.items():
        paths = sorted((sia_artifact / "workloads" / family).glob("workload-*.csv"))
        runs = [sia.run_of(sia_artifact, path, "goodput", "unknown") for path in paths]
        families[family] = (f"Sia's {words}", runs, sia.CHOSEN_ON[family])
    return families


def measure(sim, families):
    """By family, scatter and knowledge."""
    data = {}
    for family, (words, runs, _) in families.items():
        data[family] = {
            scatter: {name: simulator.summarise(sim.all([run | {"work-scatter": scatter} | knowledge for run in runs]))
                      for name, knowledge in KNOWLEDGE.items()} for scatter in SCATTERS}
        print(f"reproduce-history: {words} is done", flush=True)
    return data


def ratio(ours, theirs, field="avg_jct_s"):
    return sum(one[field] for one in ours) / sum(one[field] for one in theirs)


def table(data, families):
    rows = []
    for scatter in SCATTERS:
        for family, (words, _, chosen) in families.items():
            base = data[family][scatter]["unknown"]
            for name, knowledge in WORDS.items():
                ours = data[family][scatter][name]
                mine, theirs = ours["by_workload"], base["by_workload"]
                rows.append([words, scatter, knowledge, f"{ours['avg_jct_s'] / 3600:.3f}", f"{ratio(mine, theirs):.3f}",
                             f"{ratio(mine[:chosen], theirs[:chosen]):.3f} / {ratio(mine[chosen:], theirs[chosen:]):.3f}",
                             f"{ratio(mine, theirs, 'p99_jct_s'):.2f}",
                             f"{ours['worst_finish_time_fairness']:.2f} / {base['worst_finish_time_fairness']:.2f}",
                             f"{ours['restarts_per_job']:.1f} / {base['restarts_per_job']:.1f}"])
    return page.table(["workloads", "scatter", "work left", "mean JCT, h", "ratio to unknown",
                       "on workloads chosen on / others", "p99 ratio", "worst FTF, and unknown",
                       "restarts per job, and unknown"], rows)


def main():
    parser = argparse.ArgumentParser(prog="reproduce-history.sh", description=__doc__)
    parser.add_argument("pollux", type=pathlib.Path, help="folder of Pollux's workloads and traces")
    parser.add_argument("sia", type=pathlib.Path, help="folder of Sia's workloads and traces")
    parser.add_argument("--simulator", required=True, help="the program adaptdl-sim")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "results.md")
    arguments = parser.parse_args()
    families = workloads(arguments.pollux.resolve(), arguments.sia.resolve())
    data = measure(simulator.Simulator(arguments.simulator), families)
    (ROOT / "docs" / "results" / "history.json").write_text(json.dumps(data, indent=1) + "\n")
    page.replace_block(arguments.page, "history", table(data, families))


if __name__ == "__main__":
    main()
