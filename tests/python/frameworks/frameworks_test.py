#!/usr/bin/env python3
"""Scripts of PyTorch Lightning and of Hugging Face's Trainer, made elastic by one line: alone they do to the last bit what they do
without it; several replicas stay equal and read each sample once in an epoch; one that was stopped goes on where it was; replicas
come, go and are killed while the others go on.

    frameworks_test.py PACKAGE      with an interpreter that has the frameworks; PACKAGE: the folder that holds `adaptdl`, in the build
                                    folder, whose programs make the cluster
"""

import collections
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import unittest
from typing import Any, Dict, List

import torch

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PACKAGE = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
SAMPLES, EPOCHS, STEPS = 70, 4, 36
STOPPED = 143


def free_port() -> int:
    """A port that nobody listens on, and that the system gives to no connection: one that waits for its peer could get it."""
    for port in random.sample(range(20000, 30000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise RuntimeError("no port is free")


class Case:
    """What the tests of both frameworks have in common."""

    job = ""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.starts = 0

    def start(self, replicas: int, *arguments: str) -> List[int]:
        """Runs the script with so many replicas; their exit codes."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTDL_")}
        environment.update(PYTHONPATH=PACKAGE, OMP_NUM_THREADS="1")
        (self.folder / "checkpoints").mkdir(exist_ok=True)
        port = str(free_port())
        running = []
        for rank in range(replicas):
            job = {"ADAPTDL_REPLICA_RANK": str(rank), "ADAPTDL_NUM_REPLICAS": str(replicas), "ADAPTDL_MASTER_PORT": port,
                   "ADAPTDL_CHECKPOINT_PATH": str(self.folder / "checkpoints"), "ADAPTDL_NUM_RESTARTS": str(self.starts)}
            log = open(self.folder / f"log-{self.starts}-{rank}", "wb")
            self.addCleanup(log.close)
            running.append(subprocess.Popen([sys.executable, str(HERE / self.job), str(self.folder), *arguments],
                                            env=dict(environment, **job), stdout=log, stderr=subprocess.STDOUT))
        self.starts += 1
        return [process.wait(timeout=200) for process in running]

    def logs(self) -> str:
        """What all have printed."""
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in sorted(self.folder.glob("log-*")))

    def ends(self) -> List[Dict[str, Any]]:
        """What the replicas ended with."""
        return [torch.load(path, weights_only=True) for path in sorted(self.folder.glob("end-*"))]

    def read(self) -> Dict[int, List[int]]:
        """By epoch the samples that were read, in order."""
        found = collections.defaultdict(list)
        for path in self.folder.glob("read-*"):
            for line in path.read_text().splitlines():
                epoch, number = map(int, line.split())
                found[epoch].append(number)
        return {epoch: sorted(numbers) for epoch, numbers in found.items()}

    def expect_each_sample_once(self) -> None:
        found = self.read()
        self.assertEqual(sorted(found), list(range(EPOCHS)))
        for epoch, numbers in found.items():
            counts = collections.Counter(numbers)
            wrong = {number: counts[number] for number in range(SAMPLES) if counts[number] != 1}
            self.assertEqual(wrong, {}, f"times that samples were read in epoch {epoch}")

    def expect_close(self, found: Dict[str, Any], expected: Dict[str, Any]) -> None:
        self.assertEqual((found["steps"], found["epoch"]), (expected["steps"], expected["epoch"]))
        self.assertAlmostEqual(found["rate"], expected["rate"], delta=1e-9)
        self.assertAlmostEqual(found["error"], expected["error"], delta=1e-4)
        for name, tensor in expected["state"].items():
            self.assertTrue(torch.allclose(found["state"][name], tensor, atol=1e-4), name)

    def plain(self) -> Dict[str, Any]:
        """What it ends with without us."""
        self.assertEqual(self.start(1, "PLAIN"), [0], self.logs())
        end, = self.ends()
        for path in [*self.folder.glob("end-*"), *self.folder.glob("read-*")]:
            path.unlink()
        return end

    def test_alone_it_does_what_it_does_without_us(self) -> None:
        expected = self.plain()
        self.assertEqual(expected["steps"], STEPS)
        self.assertEqual(self.start(1, "ELASTIC"), [0], self.logs())
        end, = self.ends()
        self.expect_close(end, expected)
        for name, tensor in expected["state"].items():
            self.assertTrue(torch.equal(end["state"][name], tensor), name)
        self.expect_each_sample_once()

    def test_replicas_are_equal_and_read_each_sample_once(self) -> None:
        expected = self.plain()
        self.assertEqual(self.start(3, "ELASTIC"), [0, 0, 0], self.logs())
        ends = self.ends()
        self.assertEqual(len(ends), 3)
        for end in ends:
            self.expect_close(end, expected)
            for name, tensor in ends[0]["state"].items():
                self.assertTrue(torch.equal(end["state"][name], tensor), name)
        self.expect_each_sample_once()

    def test_one_that_stops_early_stops_all(self) -> None:
        self.assertEqual(self.start(2, "ELASTIC", "EARLY"), [0, 0], self.logs())
        self.assertEqual([end["steps"] for end in self.ends()], [STEPS // 2] * 2)

    def test_goes_on_where_it_was_stopped(self) -> None:
        expected = self.plain()
        self.assertEqual(self.start(1, "ELASTIC", "12"), [STOPPED], self.logs())
        self.assertEqual(self.ends(), [])
        self.assertEqual(self.start(2, "ELASTIC", "29"), [STOPPED, STOPPED], self.logs())
        self.assertEqual(self.start(1, "ELASTIC"), [0], self.logs())
        end, = self.ends()
        self.expect_close(end, expected)
        self.expect_each_sample_once()


class LightningTest(Case, unittest.TestCase):
    job = "lightning_job.py"


class TransformersTest(Case, unittest.TestCase):
    job = "transformers_job.py"


class InPlaceCase:
    """A job on a cluster that has one replica, two, three, loses the first by SIGKILL, gets another one, and ends with one, while the
    framework's loop runs."""

    job = ""

    def environment(self) -> Dict[str, str]:
        return dict(os.environ, PYTHONPATH=PACKAGE, OMP_NUM_THREADS="1")

    def run_elastic(self, ends: pathlib.Path, batch: int, workers: int) -> None:
        """The test of changes in place looks whether each step was taken once, with each sample once in an epoch, and left the same
        bits on all replicas, and whether the processes of the others went on."""
        test = os.path.join(os.path.dirname(PACKAGE), "tests/integration_python_rescale_test")
        program = "IndicesByWorkers" if workers else "Indices"
        job = [sys.executable, str(HERE / self.job), str(ends), str(batch), "ELASTIC"]
        command = ["/usr/bin/env", f"PYTHONPATH={PACKAGE}", "OMP_NUM_THREADS=1", *job]
        run = subprocess.run([test, f"--gtest_filter=All/PythonRescaleTest.GrowsShrinksAndLosesAReplicaInPlace/{program}"],
                             env=dict(self.environment(), ADAPTDL_TEST_COMMAND=" ".join(command)), timeout=600, text=True, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("[  PASSED  ] 1 test.", run.stdout)

    def run_plain(self, ends: pathlib.Path, batch: int, epochs: int) -> Dict[str, Any]:
        """What as many epochs end with without us."""
        run = subprocess.run([sys.executable, str(HERE / self.job), str(ends), str(batch), "PLAIN", str(epochs)],
                             env=self.environment(), timeout=600, text=True, check=False, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
        self.assertEqual(run.returncode, 0, run.stdout)
        return torch.load(*ends.glob("end-*"), weights_only=True)

    def expect_sums(self, ends: pathlib.Path) -> None:
        """All that were there have seen the same sums; only what the one that was killed had added in its last epoch is missing."""
        found: Dict[int, set] = collections.defaultdict(set)
        for path in ends.glob("sums-*"):
            for line in path.read_text().splitlines():
                epoch, total = map(int, line.split())
                found[epoch].add(total)
        self.assertEqual(sorted(found), list(range(len(found))))
        self.assertEqual({epoch: totals for epoch, totals in found.items() if len(totals) != 1}, {})
        totals = [0, *(found[epoch].pop() for epoch in range(len(found)))]
        missing = [SAMPLES - after + before for before, after in zip(totals, totals[1:]) if after - before != SAMPLES]
        self.assertLessEqual(len(missing), 1, missing)
        self.assertTrue(all(0 < number < SAMPLES for number in missing), missing)

    def expect_one_training(self, batch: int, workers: int) -> None:
        with tempfile.TemporaryDirectory() as elastic, tempfile.TemporaryDirectory() as plain:
            self.run_elastic(pathlib.Path(elastic), batch, workers)
            end, = (torch.load(path, weights_only=True) for path in pathlib.Path(elastic).glob("end-*"))
            expected = self.run_plain(pathlib.Path(plain), batch, end["epoch"])
            self.assertEqual([end[name] for name in ("steps", "epoch", "rate")],
                             [expected[name] for name in ("steps", "epoch", "rate")])
            for name, tensor in expected["state"].items():
                self.assertTrue(torch.allclose(end["state"][name], tensor, atol=1e-6), name)
            self.expect_sums(pathlib.Path(elastic))

    def test_with_processes_that_read(self) -> None:
        self.expect_one_training(batch=8, workers=1)

    def test_changes_after_the_last_step_of_an_epoch(self) -> None:
        self.expect_one_training(batch=SAMPLES, workers=0)


class LightningInPlaceTest(InPlaceCase, unittest.TestCase):
    job = "lightning_in_place.py"


class TransformersInPlaceTest(InPlaceCase, unittest.TestCase):
    job = "transformers_in_place.py"


class ProgramsTest(unittest.TestCase):
    """What the documents show runs as it stands."""

    def run_program(self, *command: str) -> str:
        """Runs it in a folder of its own; what it has printed."""
        environment = dict(os.environ, PYTHONPATH=PACKAGE, OMP_NUM_THREADS="1")
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([sys.executable, *command], cwd=folder, env=environment, timeout=300, text=True, check=False,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(run.returncode, 0, run.stdout)
        return run.stdout

    def test_blocks_of_the_page(self) -> None:
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python-frameworks.md").read_text(), re.DOTALL)
        self.assertEqual(len(blocks), 2)
        for block in blocks:
            with self.subTest(block[:40]):
                self.run_program("-c", block)

    def test_examples_learn(self) -> None:
        lightning = self.run_program(str(ROOT / "examples/python-lightning/train.py"))
        self.assertGreater(float(re.findall(r"accuracy ([0-9.]+) after 640 steps", lightning)[0]), 0.65)
        counting = self.run_program(str(ROOT / "examples/python-transformers/train.py"), "--epochs", "4", "--output", "out")
        self.assertLess(float(re.findall(r"loss ([0-9.]+) after 64 steps", counting)[0]), 2)


if __name__ == "__main__":
    unittest.main()
