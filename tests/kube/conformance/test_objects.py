"""Objects and their versions: creation, replacement, conflicts, dry-run, status and scale."""

import unittest

from api import JSON_PATCH, MERGE, STRATEGIC, ConformanceTest


class ObjectsTest(ConformanceTest):

    def test_a_new_object_has_an_identity(self):
        made = self.make()
        metadata = made["metadata"]
        self.assertEqual((metadata["name"], metadata["namespace"], metadata["generation"]),
                         (self.name, self.namespace, 1))
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            self.assertTrue(metadata[field])
        self.assertEqual(self.get(), made)

    def test_a_name_is_taken_once(self):
        self.make()
        self.assert_refused(self.api.call("POST", self.widgets, self.widget()), 409, "AlreadyExists")

    def test_names_are_made_up(self):
        obj = self.widget()
        obj["metadata"] = {"generateName": "made-"}
        self.assertRegex(self.make(obj)["metadata"]["name"], r"^made-\w{5}$")

    def test_what_is_not_there(self):
        self.assert_refused(self.api.call("GET", self.widget_path), 404, "NotFound")
        self.assert_refused(self.api.call("DELETE", self.widget_path), 404, "NotFound")
        self.assert_refused(self.patch({"spec": {"size": 2}}), 404, "NotFound")
        self.assert_refused(
            self.api.call("POST", self.widgets.replace(self.namespace, "no-such-namespace"), self.widget()),
            404, "NotFound")

    def test_names_have_rules(self):
        obj = self.widget()
        obj["metadata"]["name"] = "Not_A_Name"
        self.assert_refused(self.api.call("POST", self.widgets, obj), 422, "Invalid")

    def test_a_replacement_is_of_the_version_that_it_names(self):
        made = self.make()
        made["spec"]["size"] = 2
        code, second = self.put(made)
        self.assertEqual(code, 200, second)
        self.assertNotEqual(self.version(second), self.version(made))
        self.assertEqual(second["metadata"]["generation"], 2)
        made["spec"]["size"] = 3
        self.assert_refused(self.put(made), 409, "Conflict")
        self.assertEqual(self.get()["spec"]["size"], 2)

    def test_a_replacement_names_a_version(self):
        made = self.make()
        del made["metadata"]["resourceVersion"]
        self.assert_refused(self.put(made), 422, "Invalid")

    def test_another_object_of_the_name_is_not_replaced(self):
        made = self.make()
        made["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
        self.assert_refused(self.put(made), 409, "Conflict")

    def test_a_change_of_nothing_is_no_change(self):
        made = self.make()
        self.assertEqual(self.version(self.put(made)[1]), self.version(made))
        self.assertEqual(self.version(self.patch({"spec": {"size": 1}})[1]), self.version(made))

    def test_generation_is_that_of_the_spec(self):
        self.make()
        _, labelled = self.patch({"metadata": {"labels": {"a": "b"}}})
        self.assertEqual(labelled["metadata"]["generation"], 1)
        self.assertEqual(self.patch({"spec": {"size": 5}})[1]["metadata"]["generation"], 2)
        _, reported = self.patch({"status": {"phase": "x"}}, path=self.widget_path + "/status")
        self.assertEqual(reported["metadata"]["generation"], 2)

    def test_a_dry_run_checks_and_keeps_nothing(self):
        code, answer = self.api.call("POST", self.widgets + "?dryRun=All", self.widget())
        self.assertEqual(code, 201, answer)
        self.assertEqual(answer["spec"]["colour"], "red")
        self.assert_refused(self.api.call("GET", self.widget_path), 404, "NotFound")
        made = self.make()
        self.assertEqual(self.patch({"spec": {"size": 9}}, query="?dryRun=All")[1]["spec"]["size"], 9)
        self.assertEqual(self.api.call("DELETE", self.widget_path + "?dryRun=All")[0], 200)
        self.assertEqual(self.get(), made)
        self.assert_refused(self.patch({"spec": {"size": "x"}}, query="?dryRun=All"), 422, "Invalid")

    def test_leases_are_replaced_in_their_version_only(self):
        path = f"{self.leases}/{self.name}"
        made = self.make({"metadata": {"name": self.name}, "spec": {"holderIdentity": "a"}}, path=self.leases)
        stale = dict(made, spec={"holderIdentity": "b"})
        self.assertEqual(self.put(dict(made, spec={"holderIdentity": "c"}), path=path)[0], 200)
        self.assert_refused(self.put(stale, path=path), 409, "Conflict")
        self.assertEqual(self.get(path)["spec"]["holderIdentity"], "c")


class StatusTest(ConformanceTest):

    def test_status_is_written_at_its_own_address_only(self):
        obj = self.widget()
        obj["status"] = {"phase": "early"}
        self.assertNotIn("status", self.make(obj))
        _, after = self.patch({"status": {"phase": "x"}, "spec": {"size": 2}})
        self.assertNotIn("status", after)
        self.assertEqual(after["spec"]["size"], 2)
        code, after = self.patch(
            {
                "status": {
                    "phase": "y"
                },
                "spec": {
                    "size": 3
                },
                "metadata": {
                    "labels": {
                        "a": "b"
                    }
                }
            },
            path=self.widget_path + "/status")
        self.assertEqual(code, 200, after)
        self.assertEqual((after["status"], after["spec"]["size"]), ({"phase": "y"}, 2))
        self.assertNotIn("labels", after["metadata"])

    def test_status_conflicts_like_all_else(self):
        made = self.make()
        self.patch({"spec": {"size": 2}})
        made["status"] = {"phase": "x"}
        self.assert_refused(self.put(made, path=self.widget_path + "/status"), 409, "Conflict")
        patch = {"metadata": {"resourceVersion": self.version(made)}, "status": {"phase": "x"}}
        self.assert_refused(self.patch(patch, path=self.widget_path + "/status"), 409, "Conflict")

    def test_scale_is_a_view(self):
        self.make(self.widget(replicas=3))
        self.patch({"status": {"replicas": 2}}, path=self.widget_path + "/status")
        scale = self.get(self.widget_path + "/scale")
        self.assertEqual((scale["kind"], scale["spec"]["replicas"], scale["status"]["replicas"]),
                         ("Scale", 3, 2))
        code, after = self.patch({"spec": {"replicas": 7}}, path=self.widget_path + "/scale")
        self.assertEqual((code, after["spec"]["replicas"]), (200, 7))
        self.assertEqual(self.get()["spec"]["replicas"], 7)
        self.assert_refused(self.put(scale, path=self.widget_path + "/scale"), 409, "Conflict")


class PatchTest(ConformanceTest):

    def test_merge_sets_and_takes_away(self):
        self.make(self.widget(row=[1, 2], limits={"a": "1", "b": "2"}))
        code, after = self.patch({"spec": {"row": [3], "limits": {"a": None, "c": "3"}}}, MERGE)
        self.assertEqual(code, 200, after)
        self.assertEqual((after["spec"]["row"], after["spec"]["limits"]), ([3], {"b": "2", "c": "3"}))

    def test_json_patch_is_all_or_nothing(self):
        made = self.make(self.widget(row=[1, 2]))
        good = [{
            "op": "test",
            "path": "/spec/size",
            "value": 1
        }, {
            "op": "add",
            "path": "/spec/row/0",
            "value": 0
        }, {
            "op": "remove",
            "path": "/spec/row/2"
        }, {
            "op": "replace",
            "path": "/spec/size",
            "value": 4
        }]
        code, after = self.patch(good, JSON_PATCH)
        self.assertEqual(code, 200, after)
        self.assertEqual((after["spec"]["size"], after["spec"]["row"]), (4, [0, 1]))
        bad = [{
            "op": "replace",
            "path": "/spec/size",
            "value": 9
        }, {
            "op": "test",
            "path": "/spec/colour",
            "value": "green"
        }]
        self.assertEqual(self.patch(bad, JSON_PATCH)[0], 422)
        self.assertEqual(self.get()["spec"]["size"], 4)
        self.assertNotEqual(self.version(made), self.version(after))

    def test_strategic_merge_is_for_built_in_types(self):
        self.make()
        self.assert_refused(self.patch({"spec": {"size": 2}}, STRATEGIC), 415, "UnsupportedMediaType")
        pod = {
            "metadata": {
                "name": self.name
            },
            "spec": {
                "containers": [{
                    "name": "a",
                    "image": "x"
                }, {
                    "name": "b",
                    "image": "y"
                }]
            }
        }
        self.make(pod, path=self.pods)
        code, after = self.patch({"spec": {
            "containers": [{
                "name": "b",
                "image": "z"
            }]
        }},
                                 STRATEGIC,
                                 path=f"{self.pods}/{self.name}")
        self.assertEqual(code, 200, after)
        self.assertEqual([container["image"] for container in after["spec"]["containers"]], ["x", "z"])

    def test_other_types_of_patches_are_refused(self):
        self.make()
        self.assert_refused(self.patch({}, "application/json"), 415, "UnsupportedMediaType")


class PodTest(ConformanceTest):

    def test_a_pod_begins_pending_and_keeps_its_spec(self):
        made = self.make(
            {
                "metadata": {
                    "name": self.name
                },
                "spec": {
                    "containers": [{
                        "name": "a",
                        "image": "x"
                    }]
                }
            },
            path=self.pods)
        self.assertEqual(made["status"]["phase"], "Pending")
        self.assertEqual((made["spec"]["restartPolicy"], made["spec"]["terminationGracePeriodSeconds"]),
                         ("Always", 30))
        refused = self.patch({"spec": {"hostNetwork": True}}, path=f"{self.pods}/{self.name}")
        self.assert_refused(refused, 422, "Invalid")

    def test_a_pod_has_containers(self):
        self.assert_refused(
            self.api.call("POST", self.pods, {
                "metadata": {
                    "name": self.name
                },
                "spec": {
                    "containers": []
                }
            }), 422, "Invalid")


if __name__ == "__main__":
    unittest.main()
