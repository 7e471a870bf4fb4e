"""A CRD's schema: what is pruned, filled in and refused."""

import unittest

from api import ConformanceTest


class SchemaTest(ConformanceTest):

    def refused(self, **spec):
        answer = self.api.call("POST", self.widgets, self.widget(**spec))
        self.assert_refused(answer, 422, "Invalid")
        return answer[1]["message"]

    def test_unknown_fields_are_pruned(self):
        made = self.make(
            self.widget(nonsense=1, parts=[{
                "name": "a",
                "nonsense": 2
            }], free={"any": {
                "thing": 1
            }}))
        self.assertNotIn("nonsense", made["spec"])
        self.assertEqual(made["spec"]["parts"], [{"name": "a"}])
        self.assertEqual(made["spec"]["free"], {"any": {"thing": 1}})

    def test_unknown_fields_are_an_error_if_one_wants_that(self):
        answer = self.api.call("POST", self.widgets + "?fieldValidation=Strict", self.widget(nonsense=1))
        self.assert_refused(answer, 400, "BadRequest")
        self.assertIn("spec.nonsense", answer[1]["message"])

    def test_defaults_are_filled_in(self):
        made = self.make()
        self.assertEqual((made["spec"]["colour"], made["spec"]["replicas"]), ("red", 1))

    def test_what_does_not_fit_is_refused(self):
        self.assertIn("spec.size", self.refused(size="one"))
        self.assertIn("spec.size", self.refused(size=-1))
        self.assertIn("spec.colour", self.refused(colour="blue"))
        self.assertIn("spec.limits.a", self.refused(limits={"a": "x"}))
        self.assertIn("spec.parts[0].name", self.refused(parts=[{"value": 1}]))
        self.assertIn("spec.row", self.refused(row={}))
        self.refused(port=1.5)
        obj = self.widget()
        del obj["spec"]["size"]
        self.assert_refused(self.api.call("POST", self.widgets, obj), 422, "Invalid")

    def test_int_or_string_is_both(self):
        self.make(self.widget(port="http"))
        self.assertEqual(self.patch({"spec": {"port": 80}})[0], 200)

    def test_changes_are_checked_as_well(self):
        self.make()
        self.assert_refused(self.patch({"spec": {"size": None}}), 422, "Invalid")
        self.assert_refused(self.patch({"status": {
            "phase": 3
        }}, path=self.widget_path + "/status"), 422, "Invalid")


if __name__ == "__main__":
    unittest.main()
