"""Steps that the optimiser takes without the engine, which learns of them when the loop goes on; and batches that
are read at once."""

import ctypes
import unittest

import torch
import torch.nn.functional as F
from support import JobTest
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import adaptdl.torch as adl
from adaptdl import _job
from adaptdl._engine import STEP_IS_ENGINES, STEP_IS_PLAIN, STEP_TAKEN, Statistics, check, engine
from adaptdl.torch.scaling_rules import LEGWScale

# The first estimates of gradient noise are made in every step.
FIRST_ESTIMATES = 32
STEPS = 80
BATCH = 4


class Samples(Dataset):
    """What a TensorDataset holds, one by one."""
    def __init__(self, tensors):
        self._tensors = tensors

    def __len__(self):
        return len(self._tensors[0])

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self._tensors)


def tensors():
    random = torch.Generator().manual_seed(3)
    inputs = torch.randn(STEPS * BATCH, 4, generator=random)
    return inputs, inputs.sum(1, keepdim=True), torch.arange(len(inputs))


class Training:
    def __init__(self, rule=None):
        torch.manual_seed(1)
        self.loader = adl.AdaptiveDataLoader(TensorDataset(*tensors()), batch_size=BATCH)
        module = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
        self.model = adl.AdaptiveDataParallel(module, self.optimizer, scaling_rule=rule)

    @property
    def kind(self):
        return self.model._engine._tensors.step.value

    def backward(self, inputs, targets):
        self.optimizer.zero_grad()
        F.mse_loss(self.model(inputs), targets).backward()

    def steps(self):
        """Takes all steps of an epoch; gives the kind of each before it was taken."""
        for _ in adl.remaining_epochs_until(1):
            for inputs, targets, _ in self.loader:
                self.backward(inputs, targets)
                kind = self.kind
                self.optimizer.step()
                yield kind


class PlainStepsTest(JobTest):
    def test_are_those_in_which_nothing_is_measured(self):
        kinds = list(Training().steps())
        self.assertEqual(len(kinds), STEPS)
        self.assertEqual(set(kinds[:FIRST_ESTIMATES]), {STEP_IS_ENGINES})
        plain = kinds[FIRST_ESTIMATES:].count(STEP_IS_PLAIN)
        # Of each eight, one is measured, and the one before it kept for that.
        self.assertEqual(plain, (STEPS - FIRST_ESTIMATES) * 6 // 8)

    def test_are_known_to_whoever_asks(self):
        training = Training()
        for number, kind in enumerate(training.steps(), 1):
            if number % 3 == 0:
                self.assertEqual(_job.job().place().optimizer_steps, number)
            if number % 3 == 1:
                statistics = Statistics()
                check(engine.model_statistics(training.model._engine.handle, ctypes.byref(statistics)))
                self.assertEqual(statistics.progress, number)
        self.assertEqual(_job.job().place().optimizer_steps, STEPS)

    def test_stay_plain_when_somebody_asks_where_the_job_is(self):
        training = Training()
        kinds = set()
        for _ in adl.remaining_epochs_until(1):
            for inputs, targets, _ in training.loader:
                kind = training.kind
                _job.job().place()
                self.assertEqual(training.kind, kind)
                kinds.add(kind)
                training.backward(inputs, targets)
                training.optimizer.step()
        self.assertEqual(kinds, {STEP_IS_ENGINES, STEP_IS_PLAIN})

    def test_that_fail_are_none(self):
        training = Training()
        failing = False
        step = training.model._engine._step

        def fail_if_asked(*args, **kwargs):
            if failing:
                raise ArithmeticError("no")
            return step(*args, **kwargs)

        training.model._engine._step = fail_if_asked
        training.optimizer.step = training.model._engine._patched_step().__get__(training.optimizer)
        steps = training.steps()
        while next(steps) != STEP_IS_PLAIN:
            pass
        taken = _job.job().place().optimizer_steps
        failing = True
        with self.assertRaises(ArithmeticError):
            while True:
                next(steps)
        self.assertEqual(_job.job().place().optimizer_steps, taken)

    def test_are_none_outside_of_loops(self):
        training = Training()
        for _ in training.steps():
            pass
        self.assertEqual(training.kind, STEP_IS_ENGINES)
        inputs, targets, _ = tensors()
        training.backward(inputs[:BATCH], targets[:BATCH])
        training.optimizer.step()
        self.assertEqual(training.kind, STEP_IS_ENGINES)
        self.assertEqual(_job.job().place().optimizer_steps, STEPS + 1)

    def test_are_none_where_the_rule_warms_up(self):
        kinds = set(Training(LEGWScale(1, STEPS * BATCH)).steps())
        self.assertEqual(kinds, {STEP_IS_ENGINES})

    def test_are_complete_before_the_model_is_closed(self):
        training = Training()
        steps = training.steps()
        while next(steps) != STEP_IS_PLAIN:
            pass
        self.assertEqual(training.kind, STEP_TAKEN)
        _job.close_job()
        self.assertEqual(training.kind, STEP_IS_ENGINES)


class ReadAtOnceTest(JobTest):
    def test_batches_are_those_of_samples_read_one_by_one(self):
        batches = []
        for dataset in (TensorDataset(*tensors()), Samples(tensors())):
            loader = adl.AdaptiveDataLoader(dataset, batch_size=7, shuffle=True)
            for _ in adl.remaining_epochs_until(1):
                batches.append(list(loader))
            self.restart()
        for at_once, one_by_one in zip(*batches):
            self.assertIs(type(at_once), type(one_by_one))
            for ours, theirs in zip(at_once, one_by_one):
                self.assertEqual(ours.stride(), theirs.stride())
                self.assertTrue(torch.equal(ours, theirs))

    def test_a_collate_function_of_ones_own_sees_each_sample(self):
        loader = adl.AdaptiveDataLoader(TensorDataset(*tensors()), batch_size=8, collate_fn=len)
        for _ in adl.remaining_epochs_until(1):
            self.assertEqual(set(loader), {8})


if __name__ == "__main__":
    unittest.main()
