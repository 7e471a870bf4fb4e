"""Calls to an API server, as plainly as possible, and what all tests of the suite share."""

import http.client
import json
import os
import secrets
import time
import unittest
import urllib.parse

# How long to wait for what the server does by itself, such as to collect dependents.
PATIENCE_SECONDS = 120

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {
                    "type": "integer",
                    "minimum": 0
                },
                "colour": {
                    "type": "string",
                    "enum": ["red", "green"],
                    "default": "red"
                },
                "replicas": {
                    "type": "integer",
                    "default": 1
                },
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {
                                "type": "string"
                            },
                            "value": {
                                "type": "integer"
                            },
                            "note": {
                                "type": "string"
                            }
                        }
                    }
                },
                "tags": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {
                        "type": "string"
                    }
                },
                "row": {
                    "type": "array",
                    "items": {
                        "type": "integer"
                    }
                },
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True
                },
                "limits": {
                    "type": "object",
                    "additionalProperties": {
                        "type": "string",
                        "pattern": "^[0-9]+$"
                    }
                },
                "port": {
                    "x-kubernetes-int-or-string": True
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {
                    "type": "string"
                },
                "replicas": {
                    "type": "integer"
                }
            }
        },
    },
}


class Api:

    def __init__(self, url):
        self._host = urllib.parse.urlsplit(url).netloc

    def _open(self, method, path, body, content_type, timeout):
        connection = http.client.HTTPConnection(self._host, timeout=timeout)
        headers = {"Accept": "application/json", "User-Agent": "conformance/1"}
        if body is not None:
            headers["Content-Type"] = content_type
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection, connection.getresponse()

    def call(self, method, path, body=None, content_type="application/json"):
        """The answer's code and body."""
        connection, response = self._open(method, path, body, content_type, PATIENCE_SECONDS)
        try:
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def watch(self, path, version, **query):
        """The events of a watch, until it ends."""
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "30", **query}
        connection, response = self._open("GET", f"{path}?{urllib.parse.urlencode(query)}", None, "",
                                          PATIENCE_SECONDS)
        try:
            for line in response:
                yield json.loads(line)
        finally:
            connection.close()


class ConformanceTest(unittest.TestCase):
    """Has a namespace, and a type of its own: Widget, with status and scale."""

    @classmethod
    def setUpClass(cls):
        cls.api = Api(os.environ["ADAPTDL_CONFORMANCE_URL"])
        suffix = secrets.token_hex(4)
        cls.group = f"c{suffix}.conformance.adaptdl"
        cls.namespace = f"adaptdl-conformance-{suffix}"
        cls.api_version = f"{cls.group}/v1"
        cls.widgets = f"/apis/{cls.group}/v1/namespaces/{cls.namespace}/widgets"
        cls.config_maps = f"/api/v1/namespaces/{cls.namespace}/configmaps"
        cls.pods = f"/api/v1/namespaces/{cls.namespace}/pods"
        cls.leases = f"/apis/coordination.k8s.io/v1/namespaces/{cls.namespace}/leases"
        cls.crd = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{cls.group}"
        cls.addClassCleanup(cls.api.call, "DELETE", f"/api/v1/namespaces/{cls.namespace}")
        cls.addClassCleanup(cls.api.call, "DELETE", cls.crd)
        cls._make("/api/v1/namespaces", {"metadata": {"name": cls.namespace}})
        cls._make(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
                "metadata": {
                    "name": f"widgets.{cls.group}"
                },
                "spec": {
                    "group":
                    cls.group,
                    "scope":
                    "Namespaced",
                    "names": {
                        "plural": "widgets",
                        "singular": "widget",
                        "kind": "Widget",
                        "shortNames": ["wdg"]
                    },
                    "versions": [{
                        "name":
                        "v1",
                        "served":
                        True,
                        "storage":
                        True,
                        "schema": {
                            "openAPIV3Schema": SCHEMA
                        },
                        "subresources": {
                            "status": {},
                            "scale": {
                                "specReplicasPath": ".spec.replicas",
                                "statusReplicasPath": ".status.replicas"
                            }
                        },
                        "additionalPrinterColumns": [{
                            "name": "Size",
                            "type": "integer",
                            "jsonPath": ".spec.size"
                        }]
                    }]
                }
            })
        cls.eventually(lambda: cls.api.call("GET", cls.widgets)[0] == 200)
        # Pods can't be made before it is there.
        account = f"/api/v1/namespaces/{cls.namespace}/serviceaccounts/default"
        cls.eventually(lambda: cls.api.call("GET", account)[0] == 200)

    @classmethod
    def _make(cls, path, body):
        code, answer = cls.api.call("POST", path, body)
        if code != 201:
            raise AssertionError(f"{path}: {code} {answer}")

    @staticmethod
    def eventually(condition):
        """Waits for what the server does in its own time."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > end:
                raise AssertionError("it did not come to pass")
            time.sleep(0.02)

    def setUp(self):
        self.name = "w" + secrets.token_hex(4)
        self.widget_path = f"{self.widgets}/{self.name}"

    def widget(self, **spec):
        return {
            "apiVersion": self.api_version,
            "kind": "Widget",
            "metadata": {
                "name": self.name
            },
            "spec": {
                "size": 1,
                **spec
            }
        }

    def make(self, obj=None, path=None, query=""):
        code, answer = self.api.call("POST", (path or self.widgets) + query, obj or self.widget())
        self.assertEqual(code, 201, answer)
        return answer

    def get(self, path=None):
        code, answer = self.api.call("GET", path or self.widget_path)
        self.assertEqual(code, 200, answer)
        return answer

    def patch(self, patch, content_type=MERGE, query="", path=None):
        return self.api.call("PATCH", (path or self.widget_path) + query, patch, content_type)

    def put(self, obj, query="", path=None):
        return self.api.call("PUT", (path or self.widget_path) + query, obj)

    def assert_refused(self, answer, code, reason):
        self.assertEqual((answer[0], answer[1].get("reason")), (code, reason), answer[1])
        self.assertEqual(answer[1]["kind"], "Status")
        self.assertEqual(answer[1]["code"], code)

    def version(self, obj):
        return obj["metadata"]["resourceVersion"]
