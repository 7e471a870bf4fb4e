#!/usr/bin/env python3
"""deploy/grafana: every panel says what it shows, in which unit, and asks for metrics that there are; none lies on another; the data source
is a variable; compose provisions all of them. Whether queries find something: panels_test.py. Grafana itself is not asked."""

import itertools
import re
import unittest

import yaml

import dashboards
import rules_test

COLUMNS = 24
# Grafana's own.
BUILT_IN = {"__rate_interval", "__range"}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def cells(panel):
    place = panel["gridPos"]
    return set(itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])))


class DashboardsTest(unittest.TestCase):

    def panels(self):
        for file, dashboard in dashboards.all_of_them().items():
            for panel in dashboards.panels(dashboard):
                with self.subTest(f'{file}: {panel.get("title")}'):
                    yield dashboard, panel

    def test_there_is_one_for_each_subject(self):
        found = dashboards.all_of_them()
        self.assertLessEqual({"cluster.json", "job.json", "scheduler.json", "control-plane.json", "cost.json"}, set(found))
        for key in ("uid", "title", "description"):
            self.assertEqual(len({dashboard[key] for dashboard in found.values()}), len(found))
        for dashboard in found.values():
            self.assertEqual((dashboard["schemaVersion"], dashboard["tags"]), (39, ["adaptdl"]))

    def test_the_data_source_is_a_variable(self):
        for dashboard in dashboards.all_of_them().values():
            source = dashboards.variables(dashboard)["datasource"]
            self.assertEqual((source["type"], source["query"]), ("datasource", "prometheus"))
            for variable in dashboards.variables(dashboard).values():
                if variable["type"] == "query":
                    self.assertEqual(variable["datasource"], SOURCE)
        for _, panel in self.panels():
            self.assertEqual([each["datasource"] for each in (panel, *panel["targets"])],
                             [SOURCE] * (1 + len(panel["targets"])))

    def test_panels_explain_themselves(self):
        for _, panel in self.panels():
            self.assertTrue(panel["title"] and panel["description"].endswith("."))
            self.assertTrue(panel["fieldConfig"]["defaults"]["unit"])
            self.assertTrue(panel["targets"] and all(target["expr"] for target in panel["targets"]))
            references = [target["refId"] for target in panel["targets"]]
            self.assertEqual(len(references), len(set(references)))
            # Curves are told from each other.
            if panel["type"] == "timeseries":
                self.assertTrue(all(target["legendFormat"] for target in panel["targets"]))

    def test_no_panel_lies_on_another(self):
        for dashboard in dashboards.all_of_them().values():
            identifiers = [panel["id"] for panel in dashboard["panels"]]
            self.assertEqual(len(identifiers), len(set(identifiers)))
            taken = set()
            for panel in dashboard["panels"]:
                with self.subTest(dashboard=dashboard["title"], panel=panel["title"]):
                    place = cells(panel)
                    self.assertFalse(place & taken)
                    self.assertLessEqual(panel["gridPos"]["x"] + panel["gridPos"]["w"], COLUMNS)
                    taken |= place

    def test_queries_ask_for_what_there_is(self):
        known = rules_test.metrics_of_the_sources()
        for dashboard, panel in self.panels():
            for target in panel["targets"]:
                self.assertLessEqual(rules_test.named_in(target["expr"]), known)
                used = set(re.findall(r"\$\{?(\w+)", re.sub(r'"\$1"', "", target["expr"])))
                self.assertLessEqual(used, BUILT_IN | set(dashboards.variables(dashboard)))

    def test_compose_provisions_them(self):
        compose = yaml.safe_load((dashboards.ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
        grafana = compose["grafana"]
        self.assertEqual(grafana["profiles"], ["grafana"])
        mounts = dict(mount.split(":")[:2] for mount in grafana["volumes"])
        for source in mounts:
            self.assertTrue((dashboards.ROOT / source).is_dir())
        provisioning = dashboards.FOLDER / "provisioning"
        [source] = yaml.safe_load((provisioning / "datasources/adaptdl.yml").read_text(encoding="utf-8"))["datasources"]
        self.assertEqual((source["type"], source["url"]), ("prometheus", "http://prometheus:9090"))
        [provider] = yaml.safe_load((provisioning / "dashboards/adaptdl.yml").read_text(encoding="utf-8"))["providers"]
        self.assertEqual(provider["options"]["path"], mounts["./deploy/grafana/dashboards"])
        self.assertTrue(grafana["ports"][0].startswith("127.0.0.1:"))


if __name__ == "__main__":
    unittest.main()
