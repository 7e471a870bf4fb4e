"""Grafana's dashboards of deploy/grafana, as objects."""

import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/grafana"


def all_of_them():
    """{file's name: dashboard}"""
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted((FOLDER / "dashboards").glob("*.json"))}


def panels(dashboard):
    """Those that show something."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def variables(dashboard):
    return {each["name"]: each for each in dashboard["templating"]["list"]}


def queries():
    """(where, expression) of every query of every panel."""
    for file, dashboard in all_of_them().items():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield f'{file}: {panel["title"]} ({target["refId"]})', target["expr"]
