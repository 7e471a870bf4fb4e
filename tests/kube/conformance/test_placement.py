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


if __name__ == "__main__":
    unittest.main()
