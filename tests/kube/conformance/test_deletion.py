"""Deletion: preconditions, finalizers, owners, namespaces."""

import secrets
import unittest

from api import ConformanceTest


class DeletionTest(ConformanceTest):

    def delete(self, path=None, **options):
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
        return self.api.call("DELETE", path or self.widget_path, body)

    def is_gone(self, path):
        return self.api.call("GET", path)[0] == 404

    def own(self, owner, suffix, blocks=False):
        """An object that belongs to another one; its path."""
        reference = {
            "apiVersion": self.api_version,
            "kind": "Widget",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": blocks
        }
        self.make({"metadata": {
            "name": self.name + suffix,
            "ownerReferences": [reference]
        }},
                  path=self.config_maps)
        return f"{self.config_maps}/{self.name}{suffix}"

    def test_what_is_deleted_is_gone(self):
        made = self.make()
        code, answer = self.delete()
        self.assertEqual((code, answer["status"]), (200, "Success"))
        self.assertTrue(self.is_gone(self.widget_path))
        self.assertNotEqual(self.make()["metadata"]["uid"], made["metadata"]["uid"])

    def test_preconditions_hold_it_up(self):
        made = self.make()
        self.assert_refused(self.delete(preconditions={"uid": "other"}), 409, "Conflict")
        self.patch({"spec": {"size": 2}})
        self.assert_refused(self.delete(preconditions={"resourceVersion": self.version(made)}), 409,
                            "Conflict")
        self.assertEqual(self.delete(preconditions={"uid": made["metadata"]["uid"]})[0], 200)

    def test_a_finalizer_holds_it_until_it_is_taken_away(self):
        obj = self.widget()
        obj["metadata"]["finalizers"] = ["conformance.adaptdl/a", "conformance.adaptdl/b"]
        made = self.make(obj)
        self.assertEqual(self.delete()[0], 200)
        after = self.get()
        self.assertTrue(after["metadata"]["deletionTimestamp"])
        self.assertNotEqual(self.version(after), self.version(made))
        self.assertEqual(self.delete()[0], 200)
        self.assertEqual(self.version(self.get()), self.version(after))
        self.patch({"metadata": {"finalizers": ["conformance.adaptdl/b"]}})
        self.assertTrue(self.get()["metadata"]["deletionTimestamp"])
        self.assertEqual(self.patch({"metadata": {"finalizers": None}})[0], 200)
        self.assertTrue(self.is_gone(self.widget_path))

    def test_dependents_follow(self):
        dependent = self.own(self.make(), "d")
        self.assertEqual(self.delete(propagationPolicy="Background")[0], 200)
        self.assertTrue(self.is_gone(self.widget_path))
        self.eventually(lambda: self.is_gone(dependent))

    def test_dependents_of_nobody_go_as_well(self):
        made = self.make()
        self.delete()
        dependent = self.own(made, "d")
        self.eventually(lambda: self.is_gone(dependent))

    def test_dependents_go_first_if_one_wants_that(self):
        obj = self.widget()
        made = self.make(obj)
        dependent = self.own(made, "d", blocks=True)
        finalizer = {"metadata": {"finalizers": ["conformance.adaptdl/a"]}}
        self.assertEqual(self.patch(finalizer, path=dependent)[0], 200)
        self.assertEqual(self.delete(propagationPolicy="Foreground")[0], 200)
        self.assertIn("foregroundDeletion", self.get()["metadata"]["finalizers"])
        self.eventually(lambda: "deletionTimestamp" in self.get(dependent)["metadata"])
        self.assertFalse(self.is_gone(self.widget_path))
        self.patch({"metadata": {"finalizers": None}}, path=dependent)
        self.eventually(lambda: self.is_gone(self.widget_path))
        self.assertTrue(self.is_gone(dependent))

    def test_orphans_stay(self):
        dependent = self.own(self.make(), "d")
        self.assertEqual(self.delete(propagationPolicy="Orphan")[0], 200)
        self.eventually(lambda: self.is_gone(self.widget_path))
        self.assertFalse(self.get(dependent)["metadata"].get("ownerReferences"))

    def test_a_collection_is_deleted_by_its_selector(self):
        for name, label in (("a", "x"), ("b", "x"), ("c", "y")):
            obj = self.widget()
            obj["metadata"] = {"name": self.name + name, "labels": {"of": self.name + label}}
            self.make(obj)
        code, answer = self.api.call("DELETE", f"{self.widgets}?labelSelector=of%3D{self.name}x")
        self.assertEqual(code, 200, answer)
        left = [name for name in "abc" if not self.is_gone(f"{self.widget_path}{name}")]
        self.assertEqual(left, ["c"])

    def test_a_pod_without_a_node_goes_at_once(self):
        self.make(
            {
                "metadata": {
                    "name": self.name
                },
                "spec": {
                    "containers": [{
                        "name": "a",
                        "image": "x"
                    }],
                    "schedulerName": "nobody"
                }
            },
            path=self.pods)
        path = f"{self.pods}/{self.name}"
        self.assertEqual(self.delete(path)[0], 200)
        self.assertTrue(self.is_gone(path))

    def test_a_pod_on_a_node_has_time_until_the_kubelet_says_so(self):
        made = self.make(
            {
                "metadata": {
                    "name": self.name
                },
                "spec": {
                    "containers": [{
                        "name": "a",
                        "image": "x"
                    }],
                    "schedulerName": "nobody"
                }
            },
            path=self.pods)
        path = f"{self.pods}/{self.name}"
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": self.name
            },
            "target": {
                "kind": "Node",
                "name": "no-such-node"
            }
        }
        self.assertEqual(self.api.call("POST", path + "/binding", binding)[0], 201)
        self.assertEqual(self.get(path)["spec"]["nodeName"], "no-such-node")
        self.assertEqual(self.delete(path, gracePeriodSeconds=20)[0], 200)
        metadata = self.get(path)["metadata"]
        self.assertEqual((metadata["uid"], metadata["deletionGracePeriodSeconds"]),
                         (made["metadata"]["uid"], 20))
        self.assertTrue(metadata["deletionTimestamp"])
        self.assertEqual(self.delete(path, gracePeriodSeconds=10)[0], 200)
        self.assertEqual(self.get(path)["metadata"]["deletionGracePeriodSeconds"], 10)
        self.assertEqual(self.delete(path, gracePeriodSeconds=0)[0], 200)
        self.assertTrue(self.is_gone(path))

    def test_a_namespace_takes_all_with_it(self):
        name = "adaptdl-conformance-" + secrets.token_hex(4)
        self.make({"metadata": {"name": name}}, path="/api/v1/namespaces")
        widgets = self.widgets.replace(self.namespace, name)
        self.make(path=widgets)
        self.assertEqual(self.api.call("DELETE", f"/api/v1/namespaces/{name}")[0], 200)
        self.eventually(lambda: self.is_gone(f"/api/v1/namespaces/{name}"))
        self.assertEqual(self.get(widgets)["items"], [])


if __name__ == "__main__":
    unittest.main()
