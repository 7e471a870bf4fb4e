"""Lists and watches: pages, order, selectors, bookmarks, and what is forgotten."""

import unittest
import urllib.parse

from api import ConformanceTest


class WatchTest(ConformanceTest):

    def setUp(self):
        super().setUp()
        # Of this test alone.
        self.mine = {"labelSelector": f"test={self.name}"}

    def make_mine(self, suffix, **labels):
        obj = self.widget()
        obj["metadata"] = {"name": self.name + suffix, "labels": {"test": self.name, **labels}}
        return self.make(obj)

    def list(self, **query):
        return self.api.call("GET", f"{self.widgets}?{urllib.parse.urlencode({**self.mine, **query})}")

    def events(self, version, count, **query):
        """The first ones of a watch, as (type, name, resourceVersion)."""
        found = []
        for event in self.api.watch(self.widgets, version, **{**self.mine, **query}):
            metadata = event["object"]["metadata"]
            found.append(
                (event["type"], metadata["name"].removeprefix(self.name), metadata["resourceVersion"]))
            if len(found) == count:
                break
        return found

    def test_a_watch_goes_on_where_a_list_ended(self):
        self.make_mine("a")
        _, listed = self.list()
        self.assertEqual([item["metadata"]["name"] for item in listed["items"]], [self.name + "a"])
        second = self.make_mine("b")
        path = f"{self.widgets}/{self.name}b"
        _, third = self.patch({"spec": {"size": 2}}, path=path)
        self.api.call("DELETE", path)
        events = self.events(listed["metadata"]["resourceVersion"], 3)
        self.assertEqual([event[:2] for event in events], [("ADDED", "b"), ("MODIFIED", "b"),
                                                           ("DELETED", "b")])
        self.assertEqual([event[2] for event in events[:2]], [self.version(second), self.version(third)])
        self.assertNotIn(events[2][2], (self.version(second), self.version(third)))
        # From any version between.
        self.assertEqual(self.events(self.version(second), 2), events[1:])

    def test_without_a_version_it_begins_with_what_is_there(self):
        self.make_mine("a")
        self.make_mine("b")
        self.assertEqual(sorted(event[:2] for event in self.events("0", 2)), [("ADDED", "a"), ("ADDED", "b")])

    def test_a_selector_makes_its_own_world(self):
        made = self.make_mine("a", colour="red")
        path = f"{self.widgets}/{self.name}a"
        for colour in ("green", "red", "green"):
            self.patch({"metadata": {"labels": {"colour": colour}}}, path=path)
        events = self.events(self.version(made), 3, labelSelector=f"test={self.name},colour=green")
        self.assertEqual([event[0] for event in events], ["ADDED", "DELETED", "ADDED"])

    def test_selectors_of_lists(self):
        self.make_mine("a", colour="red")
        self.make_mine("b", colour="green")
        self.make_mine("c")
        for selector, names in (("colour=red", "a"), ("colour!=red", "bc"), ("colour", "ab"),
                                ("!colour", "c"), ("colour in (red,green)", "ab"), ("colour notin (red)",
                                                                                    "bc")):
            code, listed = self.list(labelSelector=f"test={self.name},{selector}")
            self.assertEqual(code, 200, listed)
            self.assertEqual("".join(item["metadata"]["name"][-1] for item in listed["items"]), names,
                             selector)
        _, listed = self.api.call("GET", f"{self.widgets}?fieldSelector=metadata.name%3D{self.name}b")
        self.assertEqual(len(listed["items"]), 1)

    def test_lists_come_in_pages_of_one_moment(self):
        for suffix in "abcde":
            self.make_mine(suffix)
        names, token, versions = [], "", set()
        while True:
            code, page = self.list(limit=2, **({"continue": token} if token else {}))
            self.assertEqual(code, 200, page)
            names += [item["metadata"]["name"][-1] for item in page["items"]]
            versions.add(page["metadata"]["resourceVersion"])
            token = page["metadata"].get("continue")
            if not token:
                break
            self.make_mine("z" * len(names))  # after the moment
        self.assertEqual((names, len(versions)), (list("abcde"), 1))

    def test_bookmarks_say_how_far_it_is(self):
        made = self.make_mine("a")
        for event in self.api.watch(self.widgets,
                                    self.version(made),
                                    allowWatchBookmarks="true",
                                    timeoutSeconds="5",
                                    **self.mine):
            self.assertEqual(event["type"], "BOOKMARK")
            self.assertEqual(event["object"]["kind"], "Widget")
            self.assertTrue(event["object"]["metadata"]["resourceVersion"])
            break
        else:
            self.fail("there was none")

    def test_what_is_forgotten_is_gone(self):
        self.make_mine("a")
        self.make_mine("b")
        _, page = self.list(limit=1)
        can_be_told = self.api.call("POST", "/-/compact")[0] == 200
        if not can_be_told and self.api.call(
                "GET", self.widgets + "?resourceVersion=1&resourceVersionMatch=Exact")[0] != 410:
            self.skipTest("this cluster is too young to have forgotten anything")
        for event in self.api.watch(self.widgets, "1"):
            self.assertEqual((event.get("type"), (event.get("object") or event)["code"]),
                             ("ERROR", 410) if "type" in event else (None, 410))
            break
        else:
            self.fail("the watch has ended without a word")
        if can_be_told:
            code, answer = self.list(limit=1, **{"continue": page["metadata"]["continue"]})
            self.assertEqual((code, answer["reason"]), (410, "Expired"))

    def test_a_watch_ends_when_its_time_is_over(self):
        made = self.make_mine("a")
        self.assertEqual(
            list(self.api.watch(self.widgets, self.version(made), timeoutSeconds="1", **self.mine)), [])


if __name__ == "__main__":
    unittest.main()
