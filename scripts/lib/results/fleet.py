"""A week of a fleet in the simulator: the tables of docs/scale.md. See --help."""

import argparse
import json
import pathlib
import subprocess
import sys

import page

ROOT = pathlib.Path(__file__).resolve().parents[3]
KINDS = ("h100:2000x8", "a100:2000x8", "a100:2000x8", "v100:2000x8")
FLEET = {"clusters": 1000, "cluster": KINDS, "jobs-per-hour": 750_000, "duration": "7d"}
# A hundredth of it: clusters so small that chance leaves some of them busier than others.
SMALL = {"clusters": 1000, "cluster": tuple(kind.replace("2000x8", "20x8") for kind in KINDS), "jobs-per-hour": 7_500}
# What a node fails by, and is mended in: 419 unexpected interruptions in 54 days on 2,048 nodes (Llama 3, 2024).
FAILURES = {"node-mtbf": "6336h", "node-repair": "30m"}
SAMPLE = 4
ROUTERS = ("random", "home", "shard", "two-choices")
PERIODS = ("10s", "1m", "10m", "1h")
# One cluster by itself on one core: what a simulated job costs. The load is that of a Monday and a Tuesday, and all jobs end.
SPEED = {"clusters": 1, "cluster": ("a100:2000x8",), "jobs-per-hour": 800, "duration": "48h"}
QUICK = {"clusters": 8, "cluster": ("h100:10x8", "a100:10x8"), "jobs-per-hour": 40, "duration": "12h"}


def run(build, options):
    command = ["nice", str(build / "bin/adaptdl-sim"), "fleet", "--output", "json"]
    for option, value in options.items():
        for each in value if isinstance(value, tuple) else (value,):
            command += [f"--{option}", str(each)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def plan(fleet, speed):
    """What is run, by name; each is recorded as it comes out."""
    a_day = {"duration": "24h", "simulate": 0}
    runs = {"speed": speed, "full": fleet | FAILURES | {"simulate": SAMPLE, "threads": 2}}
    runs |= {f"router {router}": fleet | a_day | {"router": router} for router in ROUTERS}
    runs |= {f"small {router}": SMALL | a_day | {"router": router} for router in ROUTERS}
    return runs | {f"reports {period}": SMALL | a_day | {"report-period": period} for period in PERIODS}


def routed_table(header, results, goals):
    rows = []
    for name in [name for name in results if name.startswith(header)]:
        routed, name = results[name]["routed"], name.removeprefix(header).strip()
        spread = routed["most_load"] / routed["load"]
        goal = goals.get(name)
        judged = (goal or "", page.verdict(spread <= goal) if goal else "") if goals else ()
        rows.append((name, f"{routed['load']:.2f}", f"{routed['p99_load']:.2f}", f"{routed['most_load']:.2f}", f"{spread:.2f}", *judged,
                     f"{routed['most_unfinished']:,}", f"{routed['avg_jct_s']:,.0f}", f"{routed['worst_avg_jct_s']:,.0f}"))
    return page.table((header, "load, mean", "99th percentile", "most", "most by mean", *(("goal", "") if goals else ()),
                       "most unfinished jobs", "JCT, s", "JCT of the worst cluster, s"), rows)


def clusters_table(results):
    rows = []
    for cluster in results["full"]["by_cluster"]:
        kind = KINDS[cluster["cluster"] % len(KINDS)]
        rows.append((f"{cluster['cluster']}, {kind}", f"{cluster['jobs']:,}", f"{cluster['load']:.2f}", f"{100 * cluster['utilisation']:.0f} %",
                     f"{cluster['avg_jct_s']:,.0f}", f"{cluster['p99_jct_s']:,.0f}", f"{cluster['avg_wait_s']:.0f}"))
    return page.table(("cluster", "jobs", "load", "GPUs in use", "JCT, s", "JCT, 99th percentile, s", "wait, s"), rows)


def goals_table(results):
    full, speed, two = results["full"]["full"], results["speed"]["full"], results["full"]["routed"]
    an_hour = 3600 * speed["jobs_per_cpu_s"]
    rate = two["jobs_per_cpu_s"]
    lost = full["lost_work_h"] / max(full["jobs"] * full["avg_jct_s"] / 3600, 1)
    spread = two["most_load"] / two["load"]
    rows = [
        ("jobs simulated in an hour on one core, with the product's policy", "1,000,000", f"{an_hour:,.0f}", page.verdict(an_hour >= 1e6)),
        ("submissions that the simulated front routes in a second, on one core", "1,000,000", f"{rate:,.0f}", page.verdict(rate >= 1e6)),
        ("load of the fullest of 1,000 clusters by the mean, two choices, over the week", "1.1", f"{spread:.2f}", page.verdict(spread <= 1.1)),
        ("wait for the first GPUs, mean, of which half a round is 30 s", "60 s", f"{full['avg_wait_s']:.0f} s", page.verdict(full["avg_wait_s"] <= 60)),
        ("the same, 99th percentile", "300 s", f"{full['p99_wait_s']:.0f} s", page.verdict(full["p99_wait_s"] <= 300)),
        ("a decision on a cluster of 16,000 GPUs, mean", "50 ms", f"{full['decision_ms']:.0f} ms", page.verdict(full["decision_ms"] <= 50)),
        ("time of jobs lost to nodes that fail", "1 %", f"{100 * lost:.2g} %", page.verdict(lost <= 0.01)),
    ]
    return page.table(("what", "goal", "measured", ""), rows)


def facts(results):
    full, fleet = results["full"]["full"], results["full"]
    return (f"{fleet['jobs']:,} jobs were routed to {fleet['clusters']:,} clusters with {fleet['gpus']:,} GPUs, in "
            f"{fleet['routed']['cpu_s']:,.0f} s on one core. {full['clusters']} clusters, chosen by the seed, were simulated in full: "
            f"{full['jobs']:,} jobs, {full['decisions']:,} decisions, {full['cpu_s']:,.0f} s of processor time. There {full['node_failures']:,} nodes "
            f"failed, and jobs were re-scaled {full['restarts_per_job']:.1f} times each.")


def main():
    parser = argparse.ArgumentParser(prog="reproduce-fleet.sh", description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder of a build")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "scale.md")
    parser.add_argument("--quick", action="store_true", help="only see whether it runs")
    parser.add_argument("--only-page", action="store_true", help="from what was measured before")
    parser.add_argument("--only", default="", help="runs whose names begin so: speed, full, router, small, reports")
    arguments = parser.parse_args()
    if arguments.quick:
        goals_table({name: run(arguments.build, options) for name, options in plan(QUICK, QUICK).items()})
        return 0
    recorded = ROOT / "docs" / "results" / "fleet.json"
    results = json.loads(recorded.read_text()) if recorded.exists() else {}
    for name, options in plan(FLEET, SPEED).items():
        if arguments.only_page or not name.startswith(arguments.only):
            continue
        results[name] = run(arguments.build, options)
        print(f"reproduce-fleet: {name}: {results[name]['jobs']:,} jobs", flush=True)
        recorded.write_text(json.dumps(results, indent=1) + "\n")
    blocks = {"fleet goals": goals_table(results) + "\n\n" + facts(results), "fleet clusters": clusters_table(results),
              "fleet routers": routed_table("router", results, {"two-choices": 1.1, "shard": 1.25}),
              "fleet small": routed_table("small", results, {}),
              "fleet reports": routed_table("reports", results, {})}
    for name, text in blocks.items():
        page.replace_block(arguments.page, name, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
