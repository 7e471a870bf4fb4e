"""Where pods go: by what they ask for and what nodes are like."""

import unittest

from pods import PodTest

HOST_NAME = "kubernetes.io/hostname"


class PlacementTest(PodTest):

    def node_of(self, **spec):
        self.start(self.container("true"), **spec)
        self.wait_for_phase("Succeeded")
        return self.get(self.pod_path)["spec"]["nodeName"]

    def require(self, field, **requirement):
        term = {"nodeSelectorTerms": [{field: [requirement]}]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}

    def assert_unschedulable(self, words):
        self.eventually(lambda: self.condition("PodScheduled").get("reason") == "Unschedulable")
        self.assertEqual(self.condition("PodScheduled")["status"], "False")
        self.assertIn(words, self.condition("PodScheduled")["message"])
        self.assertEqual(self.phase(), "Pending")

    def test_node_selectors(self):
        for node in self.nodes:
            self.setUp()
            label = node["metadata"]["labels"][HOST_NAME]
            self.assertEqual(self.node_of(nodeSelector={HOST_NAME: label}), node["metadata"]["name"])

    def test_required_affinity(self):
        for node in self.nodes:
            self.setUp()
            name, label = node["metadata"]["name"], node["metadata"]["labels"][HOST_NAME]
            self.assertEqual(
                self.node_of(
                    affinity=self.require("matchExpressions", key=HOST_NAME, operator="In", values=[label])),
                name)
            self.setUp()
            self.assertEqual(
                self.node_of(
                    affinity=self.require("matchFields", key="metadata.name", operator="In", values=[name])),
                name)

    def test_no_node_is_like_that(self):
        self.start(self.container("true"), nodeSelector={"conformance.adaptdl/none": "x"})
        self.assert_unschedulable("didn't match Pod's node affinity/selector")

    def test_no_node_has_as_much(self):
        self.start(self.container("true", resources={"requests": {"cpu": "100k"}}))
        self.assert_unschedulable("Insufficient cpu")
        self.setUp()
        limits = {"conformance.adaptdl/thing": "1"}
        self.start(self.container("true", resources={"requests": limits, "limits": limits}))
        self.assert_unschedulable("Insufficient conformance.adaptdl/thing")

    def test_what_is_no_quantity_is_refused(self):
        pod = self.pod(self.container("true", resources={"requests": {"cpu": "a lot"}}))
        self.assert_refused(self.api.call("POST", self.pods, pod), 400, "BadRequest")

    def test_a_pod_that_could_not_be_placed_is_deleted_at_once(self):
        self.start(self.container("true"), nodeSelector={"conformance.adaptdl/none": "x"})
        self.assert_unschedulable("0/")
        self.api.call("DELETE", self.pod_path)
        self.assertTrue(self.is_gone())

    # Neighbours and priorities.

    def apart(self, label):
        term = {"topologyKey": HOST_NAME, "labelSelector": {"matchLabels": {label: "x"}}}
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    def here(self, **spec):
        """Of a pod on the first node that never ends by itself."""
        node = self.nodes[0]["metadata"]["labels"][HOST_NAME]
        return {"nodeSelector": {HOST_NAME: node}, "terminationGracePeriodSeconds": 0, **spec}

    def make_class(self, value, **more):
        name = f"{self.name}-{value}".replace("--", "-minus-")
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        self.make({"metadata": {"name": name}, "value": value, **more}, path=path)
        self.addCleanup(self.api.call, "DELETE", f"{path}/{name}")
        return name

    def start_another(self, *containers, labels=None, **spec):
        """Beside the pods that there are."""
        pod = self.pod(*containers, metadata={"name": self.name + "-b", "labels": labels or {}}, **spec)
        self.make(pod, path=self.pods)
        self.first_path, self.pod_path = self.pod_path, f"{self.pods}/{self.name}-b"

    def test_pods_that_keep_apart(self):
        pod = self.pod(self.container("sleep 1000"), **self.here(affinity=self.apart("color")))
        self.make(pod, path=self.pods)
        self.wait_for_phase("Running")
        self.start_another(self.container("true"), labels={"color": "x"}, **self.here())
        self.assert_unschedulable("didn't satisfy existing pods anti-affinity rules")
        self.api.call("DELETE", self.first_path)
        self.wait_for_phase("Succeeded")

    def test_a_more_important_pod_takes_the_place_of_another(self):
        low, high = self.make_class(-7), self.make_class(7)
        self.start(self.container("sleep 1000"),
                   **self.here(priorityClassName=low, affinity=self.apart("color")))
        self.wait_for_phase("Running")
        self.assertEqual(self.get(self.pod_path)["spec"]["priority"], -7)
        self.start_another(self.container("true"),
                           labels={"color": "x"},
                           **self.here(priorityClassName=high))
        self.wait_for_phase("Succeeded")
        self.assertEqual(self.api.call("GET", self.first_path)[0], 404)

    def test_a_pod_that_never_preempts_waits(self):
        low, high = self.make_class(-7), self.make_class(7, preemptionPolicy="Never")
        self.start(self.container("sleep 1000"),
                   **self.here(priorityClassName=low, affinity=self.apart("color")))
        self.wait_for_phase("Running")
        self.start_another(self.container("true"),
                           labels={"color": "x"},
                           **self.here(priorityClassName=high))
        self.assert_unschedulable("anti-affinity")

    def test_a_class_that_is_not_there_is_refused(self):
        pod = self.pod(self.container("true"), priorityClassName=self.name)
        self.assert_refused(self.api.call("POST", self.pods, pod), 403, "Forbidden")


if __name__ == "__main__":
    unittest.main()
