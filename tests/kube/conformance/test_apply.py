"""Server-side apply: who owns what, conflicts, and what goes when nobody wants it any more."""

import unittest

from api import APPLY, ConformanceTest


class ApplyTest(ConformanceTest):

    def apply(self, manager, force=False, path=None, obj=None, **spec):
        config = obj or {
            "apiVersion": self.api_version,
            "kind": "Widget",
            "metadata": {
                "name": self.name
            },
            "spec": spec
        }
        query = f"?fieldManager={manager}" + ("&force=true" if force else "")
        return self.api.call("PATCH", (path or self.widget_path) + query, config, APPLY)

    def applied(self, manager, **spec):
        code, answer = self.apply(manager, **spec)
        self.assertIn(code, (200, 201), answer)
        return answer

    def owned_by(self, obj, manager, operation="Apply"):
        entries = [
            entry["fieldsV1"] for entry in obj["metadata"]["managedFields"]
            if (entry["manager"], entry["operation"]) == (manager, operation)
        ]
        return entries[0] if entries else None

    def test_it_makes_what_is_not_there(self):
        code, made = self.apply("a", size=1)
        self.assertEqual(code, 201, made)
        self.assertEqual(self.owned_by(made, "a"), {"f:spec": {"f:size": {}}})
        self.assertEqual(self.apply("a", size=2)[0], 200)
        self.assertEqual(self.get()["spec"]["size"], 2)

    def test_it_needs_a_manager(self):
        config = self.widget()
        self.assertEqual(self.api.call("PATCH", self.widget_path, config, APPLY)[0], 400)

    def test_the_same_again_changes_nothing(self):
        first = self.applied("a", size=1, row=[1])
        self.assertEqual(self.version(self.applied("a", size=1, row=[1])), self.version(first))

    def test_the_field_of_another_is_a_conflict(self):
        self.applied("a", size=1)
        answer = self.apply("b", size=2)
        self.assert_refused(answer, 409, "Conflict")
        self.assertEqual([(cause["reason"], cause["field"]) for cause in answer[1]["details"]["causes"]],
                         [("FieldManagerConflict", ".spec.size")])
        self.assertIn('"a"', answer[1]["message"])
        self.assertEqual(self.get()["spec"]["size"], 1)

    def test_force_takes_it_over(self):
        self.applied("a", size=1, colour="green")
        after = self.applied("b", size=2, force=True)
        self.assertEqual((after["spec"]["size"], after["spec"]["colour"]), (2, "green"))
        self.assertEqual(self.owned_by(after, "b"), {"f:spec": {"f:size": {}}})
        self.assertEqual(self.owned_by(after, "a"), {"f:spec": {"f:colour": {}}})
        self.assert_refused(self.apply("a", size=1, colour="green"), 409, "Conflict")

    def test_the_same_value_is_shared(self):
        self.applied("a", size=1, colour="green")
        after = self.applied("b", size=1, colour="green")
        self.assertEqual(self.owned_by(after, "a"), self.owned_by(after, "b"))
        # One of them lets go: it stays, for the other.
        self.assertEqual(self.applied("b", size=1)["spec"]["colour"], "green")

    def test_what_is_left_out_goes_if_nobody_else_wants_it(self):
        self.applied("a", size=1, row=[1], limits={"x": "1", "y": "2"})
        self.patch({"metadata": {"labels": {"of": "others"}}})
        after = self.applied("a", size=1, limits={"x": "1"})
        self.assertNotIn("row", after["spec"])
        self.assertEqual(after["spec"]["limits"], {"x": "1"})
        self.assertEqual(after["metadata"]["labels"], {"of": "others"})

    def test_defaults_come_back(self):
        self.applied("a", size=1, colour="green")
        self.assertEqual(self.applied("a", size=1)["spec"]["colour"], "red")

    def test_an_update_owns_what_it_changes(self):
        self.applied("a", size=1, colour="green")
        _, after = self.patch({"spec": {"size": 5}}, query="?fieldManager=c")
        self.assertEqual(self.owned_by(after, "c", "Update"), {"f:spec": {"f:size": {}}})
        self.assertEqual(self.owned_by(after, "a"), {"f:spec": {"f:colour": {}}})
        self.assert_refused(self.apply("a", size=1, colour="green"), 409, "Conflict")

    def test_items_of_a_map_have_owners_of_their_own(self):
        self.applied("a", size=1, parts=[{"name": "one", "value": 1}])
        after = self.applied("b", parts=[{"name": "two", "value": 2}])
        self.assertEqual([part["name"] for part in after["spec"]["parts"]], ["one", "two"])
        self.assertEqual(
            self.owned_by(after, "b"),
            {"f:spec": {
                "f:parts": {
                    'k:{"name":"two"}': {
                        ".": {},
                        "f:name": {},
                        "f:value": {}
                    }
                }
            }})
        after = self.applied("b", parts=[{"name": "one", "note": "mine"}])
        self.assertEqual(after["spec"]["parts"], [{"name": "one", "value": 1, "note": "mine"}])
        self.assert_refused(self.apply("b", parts=[{"name": "one", "value": 3}]), 409, "Conflict")

    def test_sets_are_united_and_other_lists_are_one_value(self):
        self.applied("a", size=1, tags=["x"], row=[1, 2])
        after = self.applied("b", tags=["y"])
        self.assertEqual(after["spec"]["tags"], ["x", "y"])
        self.assertEqual(self.applied("a", size=1, row=[1, 2])["spec"]["tags"], ["y"])
        self.assert_refused(self.apply("b", tags=["y"], row=[1]), 409, "Conflict")

    def labelled(self, manager, force=False, **metadata):
        config = self.widget()
        del config["spec"]
        config["metadata"].update(metadata)
        return self.apply(manager, force, obj=config)

    def test_labels_and_finalizers_have_owners(self):
        self.applied("a", size=1)
        code, after = self.labelled("b", labels={"x": "1", "y": "2"}, finalizers=["conformance.adaptdl/a"])
        self.assertEqual(code, 200, after)
        owned = self.owned_by(after, "b")["f:metadata"]
        self.assertEqual(sorted(owned["f:labels"]), ["f:x", "f:y"])
        self.assertIn('v:"conformance.adaptdl/a"', owned["f:finalizers"])
        self.assert_refused(self.labelled("c", labels={"x": "3"}), 409, "Conflict")
        _, after = self.labelled("c", finalizers=["conformance.adaptdl/c"])
        self.assertEqual(after["metadata"]["finalizers"], ["conformance.adaptdl/a", "conformance.adaptdl/c"])
        _, after = self.labelled("b", labels={"x": "1"})
        self.assertEqual((after["metadata"]["labels"], after["metadata"]["finalizers"]), ({
            "x": "1"
        }, ["conformance.adaptdl/c"]))
        self.patch({"metadata": {"finalizers": None}})

    def test_status_is_applied_at_its_own_address(self):
        self.applied("a", size=1)
        config = {
            "apiVersion": self.api_version,
            "kind": "Widget",
            "metadata": {
                "name": self.name
            },
            "status": {
                "phase": "x"
            },
            "spec": {
                "size": 9
            }
        }
        code, after = self.apply("a", obj=config, path=self.widget_path + "/status")
        self.assertEqual(code, 200, after)
        self.assertEqual((after["status"], after["spec"]["size"]), ({"phase": "x"}, 1))
        # The same manager's fields of the spec stay its own.
        self.assertEqual(self.applied("a", size=2)["status"], {"phase": "x"})

    def test_what_does_not_fit_is_refused(self):
        self.assertEqual(self.apply("a", size="x")[1]["reason"] in ("Invalid", "InternalError"), True)
        self.assert_refused(self.api.call("GET", self.widget_path), 404, "NotFound")


if __name__ == "__main__":
    unittest.main()
