"""What tests of pods that run have in common. They need a node that is ready."""

import http.client
import os
import unittest
import urllib.parse

from api import ConformanceTest


def is_ready(node):
    conditions = node.get("status", {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


class PodTest(ConformanceTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        _, nodes = cls.api.call("GET", "/api/v1/nodes")
        cls.nodes = [node for node in nodes["items"] if is_ready(node)]
        if not cls.nodes:
            raise unittest.SkipTest("there is no node that is ready")

    def setUp(self):
        super().setUp()
        self.pod_path = f"{self.pods}/{self.name}"

    def container(self, script, name="a", **more):
        return {
            "name": name,
            "image": os.environ["ADAPTDL_CONFORMANCE_IMAGE"],
            "command": ["sh", "-c", script],
            **more
        }

    def pod(self, *containers, metadata=None, **spec):
        return {
            "metadata": {
                "name": self.name,
                **(metadata or {})
            },
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 5,
                "containers": list(containers),
                **spec
            }
        }

    def start(self, *containers, **spec):
        return self.make(self.pod(*containers, **spec), path=self.pods)

    def status(self):
        return self.get(self.pod_path)["status"]

    def phase(self):
        return self.status().get("phase")

    def wait_for_phase(self, *phases):
        self.eventually(lambda: self.phase() in phases)
        return self.status()

    def run_to_the_end(self, *containers, **spec):
        """The status that the pod ends in."""
        self.start(*containers, **spec)
        return self.wait_for_phase("Succeeded", "Failed")

    def output_of(self, script, **container):
        """What a pod says that succeeds."""
        spec = container.pop("spec", {})
        status = self.run_to_the_end(self.container(script, **container), **spec)
        log = self.log()
        self.assertEqual(status["phase"], "Succeeded", (status, log))
        return log

    def log(self, **query):
        code, text = self.ask_for_log(**query)
        self.assertEqual(code, 200, text)
        return text

    def ask_for_log(self, **query):
        host = urllib.parse.urlsplit(os.environ["ADAPTDL_CONFORMANCE_URL"]).netloc
        connection = http.client.HTTPConnection(host, timeout=60)
        try:
            connection.request("GET", f"{self.pod_path}/log?{urllib.parse.urlencode(query)}")
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def state(self, name="a"):
        """Of a container: the name of its state, and what it says."""
        status = self.status()
        everybody = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        return next(
            iter(next((one["state"] for one in everybody if one["name"] == name), {
                "waiting": {}
            }).items()))

    def condition(self, kind):
        conditions = self.status().get("conditions") or ()
        return next((item for item in conditions if item["type"] == kind), {})

    def is_gone(self):
        return self.api.call("GET", self.pod_path)[0] == 404
