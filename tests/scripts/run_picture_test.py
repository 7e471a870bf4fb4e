#!/usr/bin/env python3
"""What scripts/plot-run.sh draws of a run of the simulator."""

import pathlib
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/lib/results"))
import run_picture  # noqa: E402


def job(name, application, submitted, completed, *segments):
    keys = ("start_s", "end_s", "gpus", "gpu_type")
    return {"name": name, "application": application, "submitted_s": submitted, "completed_s": completed,
            "segments": [dict(zip(keys, segment)) for segment in segments]}


def run(*jobs, gpu_types=("aws",)):
    return {"policy": "goodput", "timeline": {"gpus": 4, "gpu_types": list(gpu_types), "jobs": list(jobs)}}


class RunPictureTest(unittest.TestCase):
    def test_shows_each_stretch_of_each_job(self):
        text = run_picture.picture("a run", run(
            job("a", "bert", 0, 390, (60, 390, 1, "aws")),
            job("b", "ncf", 30, 7230, (60, 120, 2, "aws"), (120, 7230, 4, "aws"))))
        xml.etree.ElementTree.fromstring(text)
        self.assertIn("<title>a: 1 GPU for 5.5 min</title>", text)
        self.assertIn("<title>b: 2 GPUs for 1 min</title>", text)
        self.assertIn("<title>b: 4 GPUs for 1.98 h</title>", text)
        self.assertIn(">bert</text>", text)
        self.assertIn(">hours since the start</text>", text)
        self.assertNotIn("nan", text)
        self.assertNotIn("href", text)  # needs nothing else

    def test_names_gpu_types_where_there_are_several(self):
        text = run_picture.picture("a run", run(job("a", "bert", 0, 60, (0, 60, 1, "rtx")), gpu_types=("aws", "rtx")))
        self.assertIn("<title>a: 1 rtx GPU for 1 min</title>", text)

    def test_escapes_names(self):
        text = run_picture.picture("x < y & z", run(job("a<b", "c&d", 0, 60, (0, 60, 1, "aws"))))
        xml.etree.ElementTree.fromstring(text)
        self.assertIn("x &lt; y &amp; z", text)
        self.assertIn("<title>a&lt;b: 1 GPU for 1 min</title>", text)
        self.assertIn(">c&amp;d</text>", text)

    def test_ticks_are_round_and_few(self):
        self.assertEqual(run_picture.ticks(10), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
        self.assertEqual(run_picture.tick_step(100), 10)
        self.assertEqual(run_picture.tick_step(130), 20)
        self.assertEqual(run_picture.tick_step(64), 10)
        self.assertEqual(run_picture.tick_step(0.5), 0.05)


if __name__ == "__main__":
    unittest.main()
