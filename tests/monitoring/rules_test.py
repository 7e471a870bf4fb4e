#!/usr/bin/env python3
"""deploy/prometheus: configurations and rules are such that Prometheus takes them, rules say what tests/*.yml there expect, name no metric
that no service has, and each alert has a section in docs/operations.md. Without promtool: skipped."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/prometheus"
RULES = sorted((FOLDER / "rules").glob("*.yml"))
OURS = re.compile(r"(?<![:\w])(?:adaptdl|grpc_server)_\w+")


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def promtool(*arguments):
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def metrics_of_the_sources():
    """By the names that are registered, whatever registers them."""
    texts = (path.read_text(encoding="utf-8") for top in ("services", "libs") for path in (ROOT / top).rglob("*.cc"))
    return {name for text in texts for name in re.findall(r'"((?:adaptdl|grpc_server)_\w+)"', text)}


def named_in(expression, recorded=()):
    """The metrics of ours that an expression needs; series of histograms are their histogram's."""
    outside_of_labels = re.sub(r"\{[^}]*\}|\"[^\"]*\"", "", expression)
    return {re.sub(r"_(?:bucket|sum|count)$", "", name) for name in OURS.findall(outside_of_labels)} - set(recorded)


def anchors(path):
    headings = re.findall(r"^#+ +(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


class RulesTest(unittest.TestCase):

    def rules(self):
        for path in RULES:
            for group in read(path)["groups"]:
                yield from group["rules"]

    def test_prometheus_takes_them(self):
        code, output = promtool("check", "rules", *RULES)
        self.assertEqual(code, 0, output)

    def test_they_say_what_they_should(self):
        tests = sorted((FOLDER / "tests").glob("*.yml"))
        self.assertEqual(set(RULES),
                         {(path.parent / file).resolve() for path in tests for file in read(path)["rule_files"]})
        code, output = promtool("test", "rules", *tests)
        self.assertEqual(code, 0, output)

    def test_metrics_exist(self):
        known = metrics_of_the_sources()
        for rule in self.rules():
            with self.subTest(rule.get("alert") or rule["record"]):
                self.assertLessEqual(named_in(rule["expr"]), known)

    def test_alerts_say_how_bad_and_where_to_read_on(self):
        alerts = [rule for rule in self.rules() if "alert" in rule]
        self.assertEqual(len(alerts), len({rule["alert"] for rule in alerts}))
        for rule in alerts:
            with self.subTest(rule["alert"]):
                self.assertIn(rule["labels"]["severity"], ("critical", "warning", "info"))
                self.assertTrue(rule["annotations"]["summary"])
                page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
                self.assertEqual((page, anchor), ("docs/operations.md", rule["alert"].lower()))
                self.assertIn(anchor, anchors(ROOT / page))

    def test_every_alert_is_made_to_fire(self):
        text = "".join(path.read_text(encoding="utf-8") for path in (FOLDER / "tests").glob("*.yml"))
        for rule in self.rules():
            if "alert" in rule:
                self.assertRegex(text, rf'alertname="{rule["alert"]}"|alertname: {rule["alert"]}\n +exp_alerts')


class ConfigurationTest(unittest.TestCase):

    def test_prometheus_takes_them(self):
        configurations = [path for path in FOLDER.glob("*.yml") if isinstance(read(path), dict)]
        self.assertEqual(len(configurations), 3)
        for path in configurations:
            with self.subTest(path.name), tempfile.TemporaryDirectory() as folder:
                # Debian's Prometheus is built without Kubernetes: files stand for the API server, the rest is as it is.
                content = read(path)
                for job in content["scrape_configs"]:
                    if job.pop("kubernetes_sd_configs", None):
                        job["file_sd_configs"] = [{"files": [str(FOLDER / "targets.example.yml")]}]
                copy = pathlib.Path(folder) / path.name
                copy.write_text(yaml.safe_dump(content))
                code, output = promtool("check", "config", "--syntax-only", copy)
                self.assertEqual(code, 0, output)
                for job in content["scrape_configs"]:
                    self.assertTrue(job["job_name"].startswith("adaptdl"))
                    self.assertTrue(job["honor_labels"])

    def test_compose_names_its_services(self):
        services = read(ROOT / "docker-compose.yml")["services"]
        job, of_jobs = read(FOLDER / "prometheus.yml")["scrape_configs"]
        for group in job["static_configs"]:
            for target in group["targets"]:
                host, _, port = target.partition(":")
                self.assertIn(host, services)
                self.assertTrue(host.startswith(group["labels"]["component"]))
                self.assertEqual(port, "7200")
        [[target]] = [group["targets"] for group in of_jobs["static_configs"]]
        host, _, port = target.partition(":")
        self.assertIn(f"--web-listen=0.0.0.0:{port}", services[host]["command"])
        # What it proves itself with is on a volume of its own.
        mounts = dict(volume.split(":")[:2] for volume in services["prometheus"]["volumes"])
        folder = mounts["security-monitoring"]
        self.assertEqual(of_jobs["authorization"]["credentials_file"], f"{folder}/token")
        self.assertEqual(of_jobs["tls_config"], {"ca_file": f"{folder}/ca.pem", "server_name": "supervisor.adaptdl"})

    def test_kubernetes_finds_the_pods(self):
        """Pods of the base have the labels and the port that discovery asks for."""
        [job] = read(FOLDER / "kubernetes.yml")["scrape_configs"]
        [discovery] = job["kubernetes_sd_configs"]
        [selector] = discovery["selectors"]
        label, _, value = selector["label"].partition("=")
        for name in ("supervisor", "allocator"):
            documents = yaml.safe_load_all((ROOT / f"deploy/kubernetes/base/{name}.yaml").read_text(encoding="utf-8"))
            [workload] = [item for item in documents if item["kind"] in ("StatefulSet", "Deployment")]
            pod = workload["spec"]["template"]
            self.assertEqual(discovery["namespaces"], {"names": [workload["metadata"]["namespace"]]})
            self.assertEqual(pod["metadata"]["labels"][label], value)
            self.assertEqual(pod["metadata"]["labels"]["app.kubernetes.io/name"], name)
            self.assertIn({"name": "metrics", "containerPort": 7200}, pod["spec"]["containers"][0]["ports"])


if __name__ == "__main__":
    if shutil.which("promtool") is None:
        print("SKIPPED: no promtool; scripts/setup.sh installs Prometheus", file=sys.stderr)
        sys.exit(77)
    unittest.main()
