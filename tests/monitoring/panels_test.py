#!/usr/bin/env python3
"""Every query of every panel finds something: in a real Prometheus that scrapes a real cluster, on which a job moves to other nodes while
it trains, and another one fails. Its rules are evaluated meanwhile, and nothing critical fires.

    panels_test.py FOLDER_OF_THE_PROGRAMS
"""

import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import yaml

import dashboards

PATIENCE = 100  # for slow machines; here it takes some 25 s
NODES = 4
# What a dashboard's variables are while this looks.
VALUES = {"__rate_interval": "10s", "__range": "5m", "namespace": ".*", "job": ".*"}


def wait_until(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE} s: {what() if callable(what) else what}")
        time.sleep(0.2)
    return found


class Cluster:
    """By "adaptdl cluster up", with a price for its nodes, so that there are costs."""

    def __init__(self, programs, home):
        self._home = home
        ours = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTDL_")}
        self._environment = ours | {"ADAPTDL_HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}",
                                    "ADAPTDL_SERVER_NODE_PRICE_PER_HOUR": "36", "OMP_NUM_THREADS": "1",
                                    "ADAPTDL_SERVER_WEB_LISTEN": "127.0.0.1:0"}

    def __enter__(self):
        self.run("cluster", "up", "--workers", NODES, "--cpus-per-worker", 1, "--port", 0)
        return self

    def __exit__(self, *_):
        self.run("cluster", "down", "--force", "--purge")

    def run(self, *arguments):
        done = subprocess.run(["adaptdl", *map(str, arguments)], env=self._environment, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        if done.returncode != 0:
            raise AssertionError(f"adaptdl {arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def status(self, job):
        return json.loads(self.run("describe", job, "-o", "json"))["job"]["status"]

    def targets(self):
        """As file discovery has them: component and address of every service."""
        files = [(path.name.partition(".")[0], path) for path in (self._home / "run").glob("*.metrics")]
        files += [("worker", path) for path in (self._home / "autoscaler/nodes").glob("*/*.metrics")]
        return [{"targets": [path.read_text(encoding="utf-8").strip()], "labels": {"component": name}} for name, path in files]


    def jobs_page(self):
        """Where the series of jobs are, and what they are read with."""
        return {"targets": [(self._home / "run/supervisor.address.web").read_text(encoding="utf-8").strip()],
                "token": self._home / "security/admin.token", "ca": self._home / "security/ca.pem"}


class MovingJob:
    """A job that trains, and whose replica set changes in place twice, as its nodes are drained: a histogram's rate is known from its second
    change on, since it has no series before the first."""

    def __init__(self, cluster, name):
        self._cluster, self._name, self._moves = cluster, name, 0
        cluster.run("submit", "--name", name, "--min-replicas", 2, "--max-replicas", 2, "--", "adaptdl-mnist",
                    "--samples", 1000, "--epochs", 1000)

    def step(self):
        if self._moves == 2:
            return
        status = self._cluster.status(self._name)
        # A change of a job that does not train yet is none in place.
        trains = status["phase"] == "JOB_PHASE_RUNNING" and float(status.get("progress", {}).get("optimizerSteps", 0)) > 0
        if trains and len(status["allocation"]) == 2 and int(status["rescales"]) == self._moves:
            self._moves += 1
            self._cluster.run("drain", status["allocation"][1])


class Prometheus:

    def __init__(self, folder, targets, jobs_page):
        self._folder = folder
        (folder / "targets.json").write_text(json.dumps(targets))
        (folder / "jobs.json").write_text(json.dumps([{"targets": jobs_page["targets"], "labels": {"component": "supervisor"}}]))
        content = yaml.safe_load((dashboards.ROOT / "deploy/prometheus/machines.yml").read_text(encoding="utf-8"))
        content["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        content["rule_files"] = [str(dashboards.ROOT / "deploy/prometheus/rules/*.yml")]
        services, jobs = content["scrape_configs"]
        services["file_sd_configs"] = [{"files": [str(folder / "targets.json")]}]
        jobs["file_sd_configs"] = [{"files": [str(folder / "jobs.json")]}]
        jobs["authorization"]["credentials_file"] = str(jobs_page["token"])
        jobs["tls_config"]["ca_file"] = str(jobs_page["ca"])
        (folder / "prometheus.yml").write_text(yaml.safe_dump(content))
        self._begin = time.time()

    def __enter__(self):
        log = self._folder / "log"
        with open(log, "w", encoding="utf-8") as file:
            self._process = subprocess.Popen(
                ["prometheus", f"--config.file={self._folder}/prometheus.yml", f"--storage.tsdb.path={self._folder}/data",
                 "--web.listen-address=127.0.0.1:0", "--log.format=json"], stdout=file, stderr=file)
        try:
            [self._address] = wait_until(lambda: f"Prometheus listens: {log.read_text()}", lambda: re.findall(
                r'"address":"(127\.0\.0\.1:[1-9]\d*)"', log.read_text(encoding="utf-8"))[:1])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()

    def ask(self, path, **parameters):
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return None  # it starts
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def finds(self, expression):
        """Whether it has been a number at any moment since the start, as a curve shows it."""
        found = self.ask("query_range", query=expression, start=self._begin, end=time.time(), step="1s")
        return found is not None and any(not math.isnan(float(value)) for series in found["result"]
                                         for _, value in series["values"])


def filled_in(expression):
    return re.sub(r"\$\{?(\w+)\}?", lambda match: VALUES.get(match.group(1), match.group()), expression)


def check_rules(prometheus):
    groups = prometheus.ask("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    sick = [rule["name"] for rule in rules if rule["health"] == "err"]
    assert rules and not sick, f"rules that can't be evaluated: {sick}"
    critical = [rule["name"] for rule in rules if rule.get("state") == "firing" and rule["labels"]["severity"] == "critical"]
    assert not critical, f"in a cluster that is well these fire: {critical}"
    return [rule["name"] for rule in rules if rule["type"] == "recording"]


def main():
    if shutil.which("prometheus") is None:
        print("SKIPPED: no Prometheus; scripts/setup.sh installs one", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with Cluster(pathlib.Path(sys.argv[1]).resolve(), folder / "cluster") as cluster:
            (folder / "prometheus").mkdir()
            with Prometheus(folder / "prometheus", cluster.targets(), cluster.jobs_page()) as prometheus:
                # What happens before it looks, no rate knows of.
                services = 3 + NODES + 1  # and the page of jobs
                wait_until("all services are scraped", lambda: prometheus.finds(f"sum(up) == {services}"))
                moving = MovingJob(cluster, "moves")
                cluster.run("submit", "--name", "fails", "--max-restarts", 0, "--", "false")
                empty = {where: filled_in(expression) for where, expression in dashboards.queries()}
                count = len(empty)

                def look():
                    moving.step()
                    for where in [where for where, expression in empty.items() if prometheus.finds(expression)]:
                        del empty[where]
                    return not empty

                wait_until(lambda: f"panels are empty: {json.dumps(empty, indent=1)}", look)
                # The digits' program reports one loss only.
                for recorded in set(check_rules(prometheus)) - {"job_valid_loss"}:
                    wait_until(f"{recorded} is recorded", lambda name=recorded: prometheus.finds(name))
    print(f"{count} queries of {len(dashboards.all_of_them())} dashboards find something")
    return 0


if __name__ == "__main__":
    sys.exit(main())
