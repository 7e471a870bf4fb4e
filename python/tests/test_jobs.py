"""A job of one replica: its epochs, sums and collectives, its beginning and its end."""

import json
import logging
import os
import pathlib
import threading
import unittest

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

import adaptdl.checkpoint
import adaptdl.collective
import adaptdl.torch as adl
from adaptdl import Error, _job, env
from plain import SAMPLES, samples
from support import JobTest, request_stop


class AccumulatorTest(JobTest):
    def test_shows_sums_when_synchronised_alone(self):
        sums = adl.Accumulator()
        sums["loss"] += 2
        sums["loss"] -= 0.5
        sums.update({"count": 3})
        sums.subtract({"count": 1})
        self.assertEqual((len(sums), "loss" in sums, list(sums)), (0, False, []))
        with sums.synchronized():
            self.assertEqual(dict(sums), {"loss": 1.5, "count": 2})
            sums["count"] = 10
            with sums.synchronized():
                self.assertEqual(sums["count"], 10)
        sums["count"] += 1
        with sums.synchronized():
            self.assertEqual(sums["count"], 11)

    def test_wrong_assignments(self):
        sums, others = adl.Accumulator(), adl.Accumulator()
        with self.assertRaises(TypeError):
            sums["loss"] = 1
        with self.assertRaises(ValueError):
            sums["loss"] = others["loss"]
        with self.assertRaises(ValueError):
            sums["loss"] = sums["count"]

    def test_sums_of_tensors(self):
        sums = adl.Accumulator()
        loader = adl.AdaptiveDataLoader(samples(), batch_size=7)
        for indices, _, _ in loader:
            sums["indices"] += indices.sum()
        with sums.synchronized():
            self.assertEqual(sums["indices"].item(), sum(range(SAMPLES)))


class CollectiveTest(JobTest):
    def test_one_replica(self):
        self.assertEqual(adaptdl.collective.allreduce(3), 3)
        self.assertEqual(adaptdl.collective.broadcast("text"), "text")
        self.assertEqual(adaptdl.collective.allreduce_async({1}, lambda a, b: a | b).result(), {1})


class JobsTest(JobTest):
    def test_epochs(self):
        self.assertIsNone(adl.current_epoch())
        for epoch in adl.remaining_epochs_until(2):
            self.assertEqual((adl.current_epoch(), adl.finished_epochs()), (epoch, epoch))
            with self.assertRaisesRegex(Error, "nested"):
                list(adl.remaining_epochs_until(2))
        self.assertEqual(list(adl.remaining_epochs_until(2)), [])
        self.assertEqual(adl.finished_epochs(), 2)

    def test_the_group_is_made_once(self):
        adl.init_process_group("gloo")
        with self.assertRaisesRegex(Error, "once"):
            adl.init_process_group("gloo")

    def test_loaders_and_sums_may_be_made_before_the_group(self):
        loader = adl.AdaptiveDataLoader(samples(), batch_size=7)
        sums = adl.Accumulator()
        # Nobody is to come before the program has said where and how.
        self.assertFalse(_job.promised().opened)
        adl.init_process_group("gloo", "tcp://127.0.0.1:1", world_size=1, rank=0)
        for indices, _, _ in loader:
            sums["seen"] += len(indices)
        with sums.synchronized():
            self.assertEqual(sums["seen"], SAMPLES)
        with self.assertRaisesRegex(Error, "once"):
            adl.init_process_group("gloo")

    def test_what_was_made_for_a_job_that_never_was_is_forgotten(self):
        loader = adl.AdaptiveDataLoader(samples(), batch_size=7)
        _job.close_job()
        adl.init_process_group("gloo")
        adl.finished_epochs()
        self.assertIsNone(loader._handle)

    def test_the_group_is_made_before_replicas_meet(self):
        adl.finished_epochs()
        with self.assertRaisesRegex(Error, "before models"):
            adl.init_process_group("gloo")

    def test_a_wrong_environment_is_told(self):
        os.environ["ADAPTDL_NUM_REPLICAS"] = "many"
        try:
            with self.assertRaisesRegex(Error, "ADAPTDL_NUM_REPLICAS"):
                adl.init_process_group("gloo")
            with self.assertRaisesRegex(Error, "ADAPTDL_NUM_REPLICAS"):
                env.num_replicas()
        finally:
            del os.environ["ADAPTDL_NUM_REPLICAS"]

    def test_a_program_that_ends_may_ask_who_it_is(self):
        with self.assertRaises(SystemExit):
            for _ in adl.AdaptiveDataLoader(samples(), batch_size=7):
                request_stop()
        self.assertEqual((env.replica_rank(), env.num_replicas()), (0, 1))

    def test_a_forked_child_is_no_replica(self):
        adl.init_process_group("gloo")
        adl.finished_epochs()
        child = os.fork()
        if child == 0:
            try:
                adl.finished_epochs()
                os._exit(1)
            except Error:
                os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(adl.finished_epochs(), 0)


class ReportTest(JobTest):
    def setUp(self):
        super().setUp()
        os.environ["ADAPTDL_CHECKPOINT_PATH"] = self.folder

    def saved(self):
        """What was reported, as a checkpoint has it."""
        self.assertTrue(adaptdl.checkpoint.save_all_states())
        newest = max(pathlib.Path(self.folder).glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
        return json.loads((newest / "adaptdl-job").read_text())["metrics"]

    def test_the_latest_values_are_the_job_s(self):
        adl.init_process_group("gloo")
        adaptdl.report(loss=2, accuracy=0.25)
        adaptdl.report(7, loss=0.5, **{"val/loss": float("nan")})
        self.assertEqual(self.saved(), [["loss", "0.5", 7], ["accuracy", "0.25", 0], ["val/loss", "nan", 7]])
        self.restart()
        adaptdl.report(accuracy=np.float32(0.75))
        self.assertEqual(self.saved()[1], ["accuracy", "0.75", 0])

    def test_steps_that_only_the_program_has_taken_count(self):
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=8)
        model = adl.AdaptiveDataParallel(model, optimizer)
        for _ in adl.remaining_epochs_until(10):
            for _, inputs, targets in loader:
                optimizer.zero_grad()
                nn.functional.mse_loss(model(inputs), targets).backward()
                optimizer.step()
                adaptdl.report(loss=1)
        self.assertEqual(self.saved(), [["loss", "1", 50]])

    def test_other_threads_may_report(self):
        adl.finished_epochs()
        thread = threading.Thread(target=lambda: adaptdl.report(loss=3))
        thread.start()
        thread.join()
        self.assertEqual(self.saved(), [["loss", "3", 0]])

    def test_what_is_no_number_is_refused(self):
        for value in (torch.tensor(0.5), "0.5", None, [1]):
            with self.assertRaisesRegex(TypeError, "^loss is a .*; give a number"):
                adaptdl.report(accuracy=1, loss=value)
        for step in (-1, 0.5, True, "3", 2**63):
            with self.assertRaisesRegex(ValueError, "^step is "):
                adaptdl.report(step, loss=1)
        self.assertEqual(self.saved(), [])

    def test_a_wrong_name_is_logged_once(self):
        adl.finished_epochs()
        with self.assertLogs("adaptdl.job", logging.ERROR) as logs:
            for _ in range(3):
                adaptdl.report(loss=1, **{"my loss": 1, "\udcff": 1})
            _job.close_job()
        self.assertEqual(len(logs.output), 1, logs.output)
        self.assertIn('the metric "my loss" is not reported', logs.output[0])


if __name__ == "__main__":
    unittest.main()
