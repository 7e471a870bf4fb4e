"""The same searches with elastic trials and with fixed numbers of slots, on two nodes of four slots: how long they take.

The trials play the step times and gradients of an application that was recorded, so slots need no cores. Early stopping and
adaptive batch sizes are in all arms; the trials of a seed have the same parameters in all of them.
"""

import json
import statistics
import time

import page
import svg
from local_cluster import LocalCluster, SlotMeter

APPLICATION = "cifar10"
NODES, SLOTS_PER_NODE, COMPRESSION, TRIALS, EPOCHS = 2, 4, 20, 16, 9
# Replicas of a trial; 0: elastic.
ARMS = {"1 slot each": 1, "2 slots each": 2, "4 slots each": 4, "elastic": 0}
GOAL = 0.8


def search(build, artifact, seed, slots, trials=TRIALS, epochs=EPOCHS):
    program = [str(build / "bench/played_trial"), "--traces", str(artifact), "--application", APPLICATION,
               "--compression", str(COMPRESSION), "--epochs", str(epochs), "--seed", str(seed),
               "--learning-rate={rate}", "--decay={decay}"]
    job = {"cpus": 1, "min_replicas": slots or 1, "max_replicas": slots or NODES * SLOTS_PER_NODE,
           "env": {"ADAPTDL_HINTS_PERIOD_SECONDS": str(30 / COMPRESSION)}}
    document = {"name": "search", "command": program,
                "parameters": {"rate": {"log_uniform": [1e-3, 1.0]}, "decay": {"log_uniform": [1e-6, 1e-2]}},
                "metric": {"name": "loss", "direction": "minimize"}, "budget": {"trials": trials},
                "algorithm": {"name": "random", "seed": seed},
                "early_stopping": {"progress": "epochs", "first": 1, "factor": 3}, "job": job}
    if slots:
        document["at_once"] = NODES * SLOTS_PER_NODE // slots
    return document


def run(build, document):
    """One search on a cluster of its own."""
    from adaptdl.tune import best_of, parse
    from adaptdl.tune.trials import Trials
    with LocalCluster(build, NODES, SLOTS_PER_NODE) as cluster, cluster.client() as client:
        path = cluster.folder / "search.json"
        path.write_text(json.dumps(document))
        begin = time.monotonic()
        with SlotMeter(client) as meter:
            cluster.finish(cluster.tune("run", str(path), "--local", "--interval", "0.2"))
        seconds = time.monotonic() - begin
        found = parse(document)
        trials = Trials(client, found).load()
        best = best_of(found, trials)
        return {"seconds": seconds, "idle": 1 - meter.held / (cluster.slots * seconds), "best": best.value,
                "to_the_end": sum(trial.is_good for trial in trials), "trials": len(trials),
                "rescales": sum(trial.job.rescales for trial in trials)}


def quick(build, artifact):
    result = run(build, search(build, artifact, 1, 0, trials=2, epochs=3))
    print(f"reproduce-tune: {result}", flush=True)


def measure(build, artifact, folder, seeds):
    data = {arm: [] for arm in ARMS}
    for seed in range(1, seeds + 1):
        for arm, slots in ARMS.items():
            path = folder / f"slots-{slots}-{seed}.json"
            if not path.exists():
                path.write_text(json.dumps(run(build, search(build, artifact, seed, slots))))
            result = json.loads(path.read_text())
            print(f"reproduce-tune: seed {seed}, {arm}: {result['seconds']:.0f} s, best {result['best']:.3f}", flush=True)
            data[arm].append(result)
    return data


def table(data):
    def median(arm, name):
        return statistics.median(result[name] for result in data[arm])

    static = [arm for arm, slots in ARMS.items() if slots]
    best = min(static, key=lambda arm: median(arm, "seconds"))
    rows = []
    for arm in ARMS:
        ratio = median(arm, "seconds") / median(best, "seconds")
        rows.append((arm, page.seconds(median(arm, "seconds")), f"{ratio:.2f}", f"at most {GOAL}" if arm == "elastic" else "",
                     page.verdict(ratio <= GOAL) if arm == "elastic" else "", f"{100 * median(arm, 'idle'):.0f} %",
                     f"{median(arm, 'to_the_end'):.0f}", f"{median(arm, 'best'):.3f}"))
    return page.table(("trials", "median time, s", "by the best fixed", "goal", "", "idle slot-time", "trials to the end",
                       "best loss"), rows)


def plot(data):
    groups = [(arm, [result["seconds"] for result in data[arm]], "", arm == "elastic") for arm in ARMS]
    return svg.dots("How long a search takes", [(f"{TRIALS} trials on {NODES * SLOTS_PER_NODE} slots", groups)])
