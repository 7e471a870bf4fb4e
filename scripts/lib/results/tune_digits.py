"""What a search finds on handwritten digits, beside the example's default parameters, on digits that neither has seen.

Each search is on two slots, with elastic trials. In the middle of the first one its tuner is killed, and then the supervisor.
"""

import json
import pathlib
import statistics
import sys
import time

import page
from local_cluster import LocalCluster

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "examples/python-mnist/mnist.py"
SEEDS, TRIALS, EPOCHS, DIGITS = 3, 16, 18, 2000
PARAMETERS = {"rate": {"log_uniform": [2e-3, 0.2]}, "batch": {"choice": [16, 32, 64]},
              "channels": {"choice": [8, 16, 24]}, "dropout": {"uniform": [0, 0.6]}, "shift": {"int": [0, 3]}}
WORDS = ["--learning-rate={rate}", "--batch-size={batch}", "--channels={channels}", "--dropout={dropout}", "--shift={shift}"]


def command(data, seed, epochs=EPOCHS, digits=DIGITS):
    return [sys.executable, str(PROGRAM), "--data", str(data), "--train", str(digits), "--epochs", str(epochs), "--validate",
            "--seed", str(seed)]


def search(build, data, seed, trials=TRIALS, epochs=EPOCHS, digits=DIGITS):
    return {"name": "digits", "command": command(data, seed, epochs, digits) + WORDS, "parameters": PARAMETERS,
            "metric": {"name": "accuracy", "direction": "maximize"}, "budget": {"trials": trials},
            "algorithm": {"name": "tpe", "seed": seed},
            "early_stopping": {"progress": "epochs", "first": 2, "factor": 3}, "job": options(build, 2)}


def options(build, most):
    return {"cpus": 1, "max_replicas": most, "env": {"PYTHONPATH": str(build / "python"), "OMP_NUM_THREADS": "1"}}


def reported(job):
    return {metric.name: metric.value for metric in job.raw.status.progress.metrics}


def run_alone(client, words, job):
    """A job of these words; what it reported."""
    client.submit(words, name="alone", **job)
    done = client.wait("alone")
    if not done.succeeded:
        raise RuntimeError(f"{words}: {done.message}")
    client.delete("alone")
    return reported(done)


def fill(params):
    return [word.format(**params) for word in WORDS]


def kill_in_the_middle(cluster, client, tuner):
    """The tuner when a quarter of the trials has ended, and the supervisor; another tuner goes on."""
    while sum(job.finished for job in client.list(labels={"adaptdl-tune-search": "digits"})) < TRIALS // 4:
        time.sleep(0.2)
    tuner.kill()
    tuner.wait()
    cluster.kill_supervisor()
    return cluster.tune("resume", "digits", "--local", "--interval", "0.2")


def run(build, data, seed, killed, **size):
    from adaptdl.tune import best_of, parse
    from adaptdl.tune.trials import Trials
    document = search(build, data, seed, **size)
    with LocalCluster(build, 2, 1) as cluster, cluster.client() as client:
        path = cluster.folder / "search.json"
        path.write_text(json.dumps(document))
        begin = time.monotonic()
        tuner = cluster.tune("run", str(path), "--local", "--interval", "0.2")
        if killed:
            tuner = kill_in_the_middle(cluster, client, tuner)
        cluster.finish(tuner)
        seconds = time.monotonic() - begin
        found = parse(document)
        trials = Trials(client, found).load()
        best = best_of(found, trials)
        small = {name: size[name] for name in ("epochs", "digits") if name in size}
        words = command(data, seed, **small)
        tuned = words + fill(best.params)
        # Without changes of the batch size, which follow measured times, a seed says it all as long as the replicas stay.
        fixed = tuned + ["--max-batch-size=0"]
        return {"seconds": seconds, "killed": killed, "trials": len(trials), "names": len({trial.job.name for trial in trials}),
                "to_the_end": sum(trial.is_good for trial in trials), "params": best.params, "best": reported(best.job),
                "default": run_alone(client, words, options(build, 1)),
                "again": run_alone(client, tuned, options(build, 2)),
                "fixed": [run_alone(client, fixed, options(build, 1)) for _ in range(2)],
                "fixed_two": [run_alone(client, fixed, options(build, 2) | {"min_replicas": 2}) for _ in range(2)]}


def quick(build, data):
    print(f"reproduce-tune: {run(build, data, 1, False, trials=2, epochs=2, digits=400)}", flush=True)


def measure(build, data, folder, seeds):
    results = []
    for seed in range(1, min(seeds, SEEDS) + 1):
        path = folder / f"digits-{seed}.json"
        if not path.exists():
            path.write_text(json.dumps(run(build, data, seed, killed=seed == 1)))
        results.append(json.loads(path.read_text()))
        print(f"reproduce-tune: digits, seed {seed}: {results[-1]}", flush=True)
    return results


def table(results):
    def of(which):
        values = [100 * result[which]["test_accuracy"] for result in results]
        return values, f"{statistics.mean(values):.2f} ({', '.join(f'{value:.2f}' for value in values)})"

    default, default_text = of("default")
    best, best_text = of("best")
    again, again_text = of("again")
    spread = max(statistics.stdev(default), statistics.stdev(best)) if len(results) > 1 else float("nan")
    ahead = statistics.mean(best) - statistics.mean(default)
    apart = max(abs(one - other) for one, other in zip(best, again))
    same = all(result[name][0] == result[name][1] for result in results for name in ("fixed", "fixed_two"))
    killed = [result for result in results if result["killed"]]
    whole = all(result["trials"] == result["names"] == TRIALS for result in killed)
    rows = (("test accuracy with the default parameters, %", default_text, "", ""),
            (f"test accuracy of the best of {TRIALS} trials, %", best_text, f"above the default by more than the scatter, {spread:.2f}",
             page.verdict(ahead > spread)),
            ("the same parameters and seed again, elastic, %", again_text, "within 1 point", page.verdict(apart <= 1)),
            ("twice on one replica, and twice on two, at a fixed batch size", "the same bits" if same else "not the same",
             "the same bits", page.verdict(same)),
            ("trials of the search whose tuner and supervisor were killed", "each once" if whole else "not each once",
             f"{TRIALS}, each once", page.verdict(whole)))
    return page.table(("", "measured (by seed)", "goal", ""), rows)
