"""What clients ask first: which types there are, what they may ask of them, and how they are shown."""

import datetime

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def versions():
    return {"kind": "APIVersions", "versions": ["v1"]}


def groups(registry):
    names = sorted({(kind.group, kind.version)
                    for kind in registry.all() if kind.group}
                   | {("authentication.k8s.io", "v1"), ("authorization.k8s.io", "v1")})
    found = []
    for group, version in names:
        entry = {"groupVersion": f"{group}/{version}", "version": version}
        if found and found[-1]["name"] == group:
            found[-1]["versions"].append(entry)
        else:
            found.append({"name": group, "versions": [entry], "preferredVersion": entry})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def resources(registry, group, version):
    found = []
    for kind in registry.all():
        if (kind.group, kind.version) != (group, version):
            continue
        entry = {
            "name": kind.plural,
            "singularName": kind.singular or kind.kind.lower(),
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": VERBS
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        found.append(entry)
        if kind.has_status:
            found.append({**entry, "name": kind.plural + "/status", "verbs": ["get", "patch", "update"]})
        if kind.scale:
            found.append({
                "name": kind.plural + "/scale",
                "singularName": "",
                "namespaced": kind.namespaced,
                "group": "autoscaling",
                "version": "v1",
                "kind": "Scale",
                "verbs": ["get", "patch", "update"]
            })
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": found
    }


def openapi_index(registry):
    names = {f"apis/{kind.group}/{kind.version}" if kind.group else "api/v1" for kind in registry.all()}
    return {"paths": {name: {"serverRelativeURL": "/openapi/v3/" + name} for name in sorted(names)}}


def openapi(registry, group, version):
    """Just enough to say that unknown fields are found by the server (kubectl asks for that before it sends anything)."""
    parameters = [{
        "name": name,
        "in": "query",
        "schema": {
            "type": "string"
        }
    } for name in ("dryRun", "fieldManager", "fieldValidation")]
    paths = {}
    for kind in registry.all():
        if (kind.group, kind.version) == (group, version):
            operation = {
                "parameters": parameters,
                "responses": {
                    "200": {
                        "description": "OK"
                    }
                },
                "x-kubernetes-group-version-kind": {
                    "group": group,
                    "version": version,
                    "kind": kind.kind
                }
            }
            root = f"/apis/{group}/{version}" if group else "/api/v1"
            paths[f"{root}/{kind.plural}/{{name}}"] = {"patch": operation, "put": operation}
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "double"}, "paths": paths}


def _age(timestamp):
    if not timestamp:
        return "<unknown>"
    then = datetime.datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    seconds = int((datetime.datetime.now(datetime.timezone.utc) - then).total_seconds())
    return f"{seconds}s" if seconds < 120 else f"{seconds // 60}m"


def _cell(obj, path):
    for name in path.strip(".").split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def table(kind, objects, revision):
    """As `kubectl get` shows them: a CRD's printer columns, or the phase."""
    columns = list(kind.columns)
    if not columns and kind.has_status:
        columns.append({"name": "Status", "type": "string", "jsonPath": ".status.phase"})
    if not any(column["name"] == "Age" for column in columns):
        columns.append({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})
    rows = []
    for obj in objects:
        cells = [obj["metadata"]["name"]]
        for column in columns:
            value = _cell(obj, column["jsonPath"])
            cells.append(_age(value) if column["type"] == "date" else value)
        rows.append({
            "cells": cells,
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj["metadata"]
            }
        })
    definitions = [{
        "name": "Name",
        "type": "string",
        "format": "name",
        "description": "",
        "priority": 0
    }] + [{
        "name": column["name"],
        "type": "string" if column["type"] == "date" else column["type"],
        "format": "",
        "description": column.get("description", ""),
        "priority": column.get("priority", 0)
    } for column in columns]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {
            "resourceVersion": str(revision)
        },
        "columnDefinitions": definitions,
        "rows": rows
    }


def document(registry, path):
    """What the server says of itself at this path. None: it is no such path."""
    parts = path.strip("/").split("/")
    if path in ("/healthz", "/readyz", "/livez"):
        return {"status": "ok"}
    if path == "/version":
        return {"major": "1", "minor": "32", "gitVersion": "v1.32.0", "platform": "linux/amd64"}
    if path == "/api":
        return versions()
    if path == "/apis":
        return groups(registry)
    if path == "/openapi/v3":
        return openapi_index(registry)
    if parts[:2] == ["openapi", "v3"]:
        return openapi(registry, *(("", "v1") if parts[2] == "api" else parts[3:5]))
    if len(parts) == 2 and parts[0] == "api":
        return resources(registry, "", parts[1])
    if len(parts) == 3 and parts[0] == "apis":
        return resources(registry, parts[1], parts[2])
    return None
