#!/usr/bin/env python3
"""What scripts/plot-timeline.sh draws of a cluster's jobs."""

import pathlib
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/lib/results"))
import timeline_picture  # noqa: E402


def at(second):
    return f"2026-01-31T10:00:{second:06.3f}+00:00"


def job(name, submitted, completed, *changes):
    result = {"name": name, "submitTime": at(submitted),
              "changes": [{"time": at(time), "replicas": replicas} for time, replicas in changes]}
    if completed is not None:
        result["completionTime"] = at(completed)
    return result


class TimelinePictureTest(unittest.TestCase):
    def test_shows_each_stretch(self):
        text = timeline_picture.picture("t", {"jobs": [
            job("a", 0, 30, (1, 1), (5.5, 2), (20, 1), (30, 0)), job("b", 10, 25, (12, 1), (25, 0))]})
        xml.etree.ElementTree.fromstring(text)
        self.assertIn("<title>a: 1 replica for 4.5 s</title>", text)
        self.assertIn("<title>a: 2 replicas for 14.5 s</title>", text)
        self.assertIn("<title>a: 1 replica for 10.0 s</title>", text)
        self.assertIn("<title>b: 1 replica for 13.0 s</title>", text)
        self.assertNotIn("nan", text)

    def test_a_job_that_goes_on_reaches_to_the_end(self):
        text = timeline_picture.picture("t", {"jobs": [job("a", 0, None, (1, 1)), job("b", 0, 50, (40, 2), (50, 0))]})
        self.assertIn("<title>a: 1 replica for 49.0 s</title>", text)

    def test_one_that_never_ran_is_only_there(self):
        text = timeline_picture.picture("<t>", {"jobs": [job("a&b", 0, 3)]})
        xml.etree.ElementTree.fromstring(text)
        self.assertIn("<title>a&amp;b: from its submission to its end</title>", text)

    def test_reads_times_as_they_are_written(self):
        self.assertEqual(timeline_picture.seconds("1970-01-01T00:00:01.5+00:00"), 1.5)
        self.assertEqual(timeline_picture.seconds("1970-01-01T00:01:00Z"), 60)


if __name__ == "__main__":
    unittest.main()
