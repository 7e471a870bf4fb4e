"""The default policy on Pollux's published workloads: tables and plots of docs/results.md. See --help."""

import argparse
import json
import pathlib

import page
import run_picture
import simulator
import svg

ROOT = pathlib.Path(__file__).resolve().parents[3]
PLOTS = ROOT / "docs" / "results"
LOADS = ("1.0", "1.5", "2.0")
WORKLOADS = range(1, 7)
PEERS = {"round": "60s", "restart": "30s", "remaining-work": "unknown"}
SETTINGS = {
    "peers": ("as the peers: 60 s rounds, 30 s restarts, work unknown", PEERS),
    "known": ("the same, remaining work known", PEERS | {"remaining-work": "known"}),
    "events": ("decisions by events, 1 s restarts, work known",
               {"round": "events", "restart": "1s", "remaining-work": "known"}),
}
# Mean completion time relative to Pollux's published simulation, by load.
GOALS = {"peers": (0.95, 0.90, 0.86), "known": (0.85, 0.78, 0.73), "events": (0.72, 0.66, 0.62)}
# Most of Pollux's worst finish-time fairness.
FAIRNESS_GOAL = 2
# The policy's parameters were chosen on these workloads.
CHOSEN_ON = (1, 2, 3)
YARDSTICKS = ("tiresias", "optimus")
# Times shorter than the yardstick: setting, load, yardstick, goal.
SHORTER = (("peers", "2.0", "tiresias", 2.0), ("peers", "2.0", "optimus", 2.0),
           ("events", "1.0", "tiresias", 1.9), ("events", "1.0", "optimus", 2.8))
# What re-scaling in place brings: pairs of settings that differ in nothing else.
IN_PLACE_TIMES = PLOTS / "in-place-pauses.json"
IN_PLACE = {
    "60 s rounds, work unknown": PEERS,
    "60 s rounds, work known": SETTINGS["known"][1],
    "decisions by events, work known": {"round": "events", "restart": "30s", "remaining-work": "known"},
}
# A quarter of the jobs use no training library: policy and remaining work.
PLAIN_PART = 0.25
BESIDE_PLAIN = {"first come, first served": ("fifo", "known"), "goodput, remaining work unknown": ("goodput", "unknown"),
                "goodput, remaining work known": ("goodput", "known")}
# A job whose gradient noise rises.
WATCHED = ("1.0", 3, "yolov3-23")


def workload(artifact, load, number):
    return artifact / ("workloads" if load == "1.0" else f"workloads-{load}") / f"workload-{number}.csv"


def run_of(artifact, load, number, policy, setting):
    return {"workload": workload(artifact, load, number), "traces": artifact, "cluster": "16x4",
            "policy": policy} | setting


def published(artifact, load):
    """Pollux's own completion times, by workload."""
    summary = json.loads((artifact / "results-jobload" / f"pollux-{load}" / "summary.json").read_text())
    return {n: list(summary["jcts"][f"workload-{n}"].values()) for n in WORKLOADS}


def measure(sim, artifact, pollux_workloads, recorded):
    """Everything that the tables need, by load. `recorded`: what others' policies took before; None: they run again."""
    data = {}
    for load in LOADS:
        jcts = published(artifact, load)
        entry = {"published": {
            "avg_jct_s": simulator.mean(simulator.mean(times) for times in jcts.values()),
            "p50_jct_s": simulator.mean(simulator.percentile(times, 50) for times in jcts.values()),
            "p99_jct_s": simulator.mean(simulator.percentile(times, 99) for times in jcts.values()),
        }}
        for name, (_, setting) in SETTINGS.items():
            entry[name] = simulator.summarise(
                sim.all([run_of(artifact, load, n, "goodput", setting) for n in WORKLOADS]))
        entry["published"]["by_workload"] = [simulator.mean(jcts[n]) for n in WORKLOADS]
        if recorded is not None:
            entry |= {policy: recorded[load][policy] for policy in YARDSTICKS + ("pollux",) if policy in recorded[load]}
            data[load] = entry
            print(f"reproduce-pollux: load {load} is done", flush=True)
            continue
        for policy in YARDSTICKS:
            entry[policy] = simulator.summarise(
                sim.all([run_of(artifact, load, n, policy, PEERS) for n in WORKLOADS]))
        numbers = list(WORKLOADS)[-pollux_workloads:] if pollux_workloads else []
        if numbers:
            entry["pollux"] = simulator.summarise(
                sim.all([run_of(artifact, load, n, "pollux", PEERS) for n in numbers]))
            entry["pollux"]["workloads"] = numbers
        data[load] = entry
        print(f"reproduce-pollux: load {load} is done", flush=True)
    return data


def measure_in_place(sim, artifact):
    """By load and setting: with restarts of 30 s, and in place."""
    data = {}
    for load in LOADS:
        data[load] = {}
        for words, setting in IN_PLACE.items():
            runs = [run_of(artifact, load, n, "goodput", setting) for n in WORKLOADS]
            data[load][words] = {
                "restart": simulator.summarise(sim.all(runs)),
                "in place": simulator.summarise(sim.all([run | {"in-place-times": IN_PLACE_TIMES} for run in runs]))}
    return data


def measure_plain(sim, artifact):
    """By load and words: mean completion times of all jobs, of plain ones and of the others, and the work lost."""
    data = {}
    for load in LOADS:
        data[load] = {}
        for words, (policy, known) in BESIDE_PLAIN.items():
            jobs = [job for n in WORKLOADS for job in sim.jobs(
                run_of(artifact, load, n, policy, PEERS | {"remaining-work": known, "plain-part": PLAIN_PART}))]
            times = {plain: [float(job["jct_s"]) for job in jobs if job["plain"] == plain] for plain in ("0", "1")}
            data[load][words] = {
                "all": simulator.mean(times["0"] + times["1"]), "plain": simulator.mean(times["1"]),
                "others": simulator.mean(times["0"]),
                "lost_s": sum(float(job["lost_work_s"]) for job in jobs)}
    return data


def plain_table(data):
    return page.table(["load", "policy", "mean JCT, s", "plain jobs, s", "others, s", "work lost, s"], [
        [load, words] + [page.seconds(means[key]) for key in ("all", "plain", "others", "lost_s")]
        for load in LOADS for words, means in data[load].items()])


def in_place_table(data):
    rows = []
    for load in LOADS:
        for words, pair in data[load].items():
            before, after = pair["restart"], pair["in place"]
            rows.append([load, words] +
                        [page.seconds(s["avg_jct_s"]) for s in (before, after)] +
                        [f"{after['avg_jct_s'] / before['avg_jct_s']:.3f}",
                         f"{after['p99_jct_s'] / before['p99_jct_s']:.3f}",
                         f"{before['restarts_per_job']:.1f}", f"{after['restarts_per_job']:.1f}"])
    return page.table(["load", "setting", "mean JCT, 30 s restarts, s", "in place, s", "ratio", "p99 ratio",
                       "changes per job, 30 s restarts", "in place"], rows)


def ratio_table(data):
    rows = []
    for load_index, load in enumerate(LOADS):
        base = data[load]["published"]
        for name, (words, _) in SETTINGS.items():
            ours = data[load][name]
            ratio = ours["avg_jct_s"] / base["avg_jct_s"]
            goal = GOALS[name][load_index]
            p99 = ours["p99_jct_s"] / base["p99_jct_s"]
            rows.append([load, words, page.seconds(ours["avg_jct_s"]), page.seconds(base["avg_jct_s"]),
                         f"{ratio:.3f}", f"{goal:.2f}", page.verdict(ratio <= goal), f"{p99:.3f}",
                         page.verdict(p99 <= 1)])
    return page.table(["load", "setting", "mean JCT, s", "Pollux, s", "ratio", "goal", "mean", "p99 ratio", "p99"],
                      rows)


def parts_table(data):
    """Ratios to Pollux on the workloads that parameters were chosen on, and on the others."""
    rows = []
    for load in LOADS:
        theirs = data[load]["published"]["by_workload"]
        for name, (words, _) in SETTINGS.items():
            ours = [w["avg_jct_s"] for w in data[load][name]["by_workload"]]
            parts = [[n - 1 for n in WORKLOADS if (n in CHOSEN_ON) == chosen] for chosen in (True, False)]
            rows.append([load, words] + [f"{sum(ours[i] for i in part) / sum(theirs[i] for i in part):.3f}"
                                         for part in parts])
    return page.table(["load", "setting", "workloads 1 to 3", "workloads 4 to 6"], rows)


def fairness_table(data):
    rows = []
    for load in LOADS:
        if "pollux" not in data[load]:
            continue
        numbers = data[load]["pollux"]["workloads"]
        pollux = data[load]["pollux"]["worst_finish_time_fairness"]
        for name, (words, _) in SETTINGS.items():
            of_same = [data[load][name]["by_workload"][n - 1] for n in numbers]
            worst = max(w["worst_finish_time_fairness"] for w in of_same)
            rows.append([load, words, f"{worst:.2f}", f"{pollux:.2f}", page.verdict(worst <= FAIRNESS_GOAL * pollux),
                         f"{100 * simulator.mean(w['unfair_fraction'] for w in of_same):.0f} %",
                         f"{100 * data[load]['pollux']['unfair_fraction']:.0f} %"])
    return page.table(["load", "setting", "worst", "Pollux's worst", "at most twice", "above 1", "Pollux's above 1"], rows)


def detail_table(data):
    rows = []
    for load in LOADS:
        names = [(name, f"goodput, {words}") for name, (words, _) in SETTINGS.items()]
        names += [("tiresias", "Tiresias"), ("optimus", "Optimus")]
        for name, words in names:
            s = data[load][name]
            rows.append([load, words, page.seconds(s["avg_jct_s"]), page.seconds(s["p50_jct_s"]),
                         page.seconds(s["p99_jct_s"]), page.seconds(s["makespan_s"]), f"{s['restarts_per_job']:.1f}",
                         f"{s['worst_finish_time_fairness']:.2f}", page.seconds(s["gpu_hours"]),
                         f"{s['decision_ms']['p50']:.2f} / {s['decision_ms']['p95']:.2f}", f"{s['cpu_s']:.2f}"])
        base = data[load]["published"]
        rows.append([load, "Pollux, as published", page.seconds(base["avg_jct_s"]), page.seconds(base["p50_jct_s"]),
                     page.seconds(base["p99_jct_s"])] + [""] * 6)
        if "pollux" in data[load]:
            s = data[load]["pollux"]
            numbers = ", ".join(str(n) for n in s["workloads"])
            rows.append([load, f"`pollux`, our own run of workloads {numbers}", page.seconds(s["avg_jct_s"]),
                         page.seconds(s["p50_jct_s"]), page.seconds(s["p99_jct_s"]), page.seconds(s["makespan_s"]),
                         f"{s['restarts_per_job']:.1f}", f"{s['worst_finish_time_fairness']:.2f}",
                         page.seconds(s["gpu_hours"]),
                         f"{s['decision_ms']['p50']:.1f} / {s['decision_ms']['p95']:.1f}", f"{s['cpu_s']:.1f}"])
    return page.table(["load", "policy", "mean, s", "p50, s", "p99, s", "makespan, s", "restarts per job",
                       "worst FTF", "GPU hours", "decision p50 / p95, ms", "CPU, s"], rows)


def yardstick_table(data):
    rows = []
    for setting, load, policy, goal in SHORTER:
        theirs, ours = data[load][policy]["avg_jct_s"], data[load][setting]["avg_jct_s"]
        rows.append([f"{policy.capitalize()}, load {load}", SETTINGS[setting][0], page.seconds(theirs),
                     page.seconds(ours), f"{theirs / ours:.2f}", f"{goal:.1f}", page.verdict(theirs / ours >= goal)])
    return page.table(["against", "our setting", "theirs, s", "ours, s", "times shorter", "goal", ""], rows)


def plot_distributions(sim, artifact, to):
    def times(policy, setting):
        results = sim.all([run_of(artifact, "1.0", n, policy, setting) for n in WORKLOADS])
        return [time for result in results for time in result["jcts"].values()]

    pollux = [time for jcts in published(artifact, "1.0").values() for time in jcts]
    to.write_text(svg.distributions("Completion times of the 960 jobs of load 1.0", [
        ("Optimus", svg.LIGHT, 2.4, "", times("optimus", PEERS)),
        ("Tiresias", svg.ORANGE, 2.2, "9 4", times("tiresias", PEERS)),
        ("Pollux, published", svg.BLUE, 2.4, "4 3", pollux),
        ("goodput, peers' setting", svg.DARK, 1.8, "", times("goodput", PEERS)),
        ("goodput, everything", svg.DARK, 3.2, "1.5 2.5", times("goodput", SETTINGS["events"][1]))]))


def plot_ratios(data, to):
    values = [[data[load][name]["avg_jct_s"] / data[load]["published"]["avg_jct_s"] for name in SETTINGS]
              for load in LOADS]
    marks = [[GOALS[name][i] for name in SETTINGS] for i in range(len(LOADS))]
    to.write_text(svg.bars("Mean completion time, relative to Pollux's published simulation", "Pollux = 1",
                           [f"load {load}" for load in LOADS],
                           [("peers' setting", svg.DARK), ("work known", svg.BLUE),
                            ("events, 1 s restarts, work known", svg.LIGHT)], values, marks, "goal"))


def plot_course(sim, artifact, to):
    load, number, job = WATCHED
    run = run_of(artifact, load, number, "goodput", SETTINGS["known"][1])
    samples = sim.one(run | {"watch": job})["watched"]
    changes = []
    for row in sim.jobs(run):
        if row["name"] != job:
            changes += [(float(row["submitted_s"]), 1), (float(row["completed_s"]), -1)]
    others, number_of_jobs = [], 0
    for time, change in sorted(changes):
        number_of_jobs += change
        others.append((time, number_of_jobs))
    to.write_text(svg.course(f"{job} of workload {number}, load {load}: more GPUs as its gradients get noisier",
                             samples, others, 64))


def main():
    parser = argparse.ArgumentParser(prog="reproduce-pollux.sh", description=__doc__)
    parser.add_argument("artifact", type=pathlib.Path, help="folder with workloads, traces and results-jobload")
    parser.add_argument("--simulator", required=True, help="the program adaptdl-sim")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "results.md")
    parser.add_argument("--pollux-workloads", type=int, default=2,
                        help="run the slow policy `pollux` on so many workloads of each load, for its fairness")
    parser.add_argument("--only-in-place", action="store_true", help="make only the table of re-scaling in place")
    parser.add_argument("--only-plain", action="store_true", help="make only the table with plain jobs")
    parser.add_argument("--recorded-peers", action="store_true",
                        help="only the default policy runs: others' figures are those recorded in docs/results/pollux.json")
    arguments = parser.parse_args()
    sim = simulator.Simulator(arguments.simulator)
    artifact = arguments.artifact.resolve()
    PLOTS.mkdir(exist_ok=True)
    plain = measure_plain(sim, artifact)
    (PLOTS / "pollux-plain.json").write_text(json.dumps(plain, indent=1) + "\n")
    page.replace_block(arguments.page, "pollux plain", plain_table(plain))
    if arguments.only_plain:
        return
    in_place = measure_in_place(sim, artifact)
    (PLOTS / "pollux-in-place.json").write_text(json.dumps(in_place, indent=1) + "\n")
    page.replace_block(arguments.page, "pollux in place", in_place_table(in_place))
    if arguments.only_in_place:
        return
    recorded = json.loads((PLOTS / "pollux.json").read_text()) if arguments.recorded_peers else None
    data = measure(sim, artifact, arguments.pollux_workloads, recorded)
    (PLOTS / "pollux.json").write_text(json.dumps(data, indent=1) + "\n")
    page.replace_block(arguments.page, "pollux goals", ratio_table(data))
    page.replace_block(arguments.page, "pollux parts", parts_table(data))
    page.replace_block(arguments.page, "pollux fairness", fairness_table(data))
    page.replace_block(arguments.page, "pollux yardsticks", yardstick_table(data))
    page.replace_block(arguments.page, "pollux details", detail_table(data))
    plot_distributions(sim, artifact, PLOTS / "completion-times.svg")
    plot_ratios(data, PLOTS / "ratios.svg")
    plot_course(sim, artifact, PLOTS / "gradient-noise.svg")
    # The lightest load: a picture of a fitting size.
    run = sim.one(run_of(artifact, "0.5", 6, "goodput", SETTINGS["known"][1]) | {"timeline": True})
    (PLOTS / "timeline.svg").write_text(run_picture.picture("workload 6 at load 0.5 under goodput on 16x4", run))


if __name__ == "__main__":
    main()
