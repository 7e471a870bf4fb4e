"""A scaler of the loss on several replicas: it follows the steps of the job. What kills do to it is tested on a
cluster, by tests/integration/python_rescale_test.cc."""

import copy
import unittest

import torch
import torch.nn.functional as F

import adaptdl.torch as adl
from adaptdl.torch import _encoding
from jobs import network, samples
from scaler import Scaler, make_scaler, overflows, state_after
from support import JobTest, run


def state_of(scaler):
    state = scaler.state_dict()
    return state["scale"], state["_growth_tracker"]


class ScalerTest(JobTest):
    def wrap(self, scaler, local=0):
        ours = network()
        optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=10, max_local_batch_size=local)
        return ours, optimizer, loader, adl.AdaptiveDataParallel(ours, optimizer, mp_scaler=scaler)

    def take_step(self, scaler, optimizer, model, data, between=None):
        _, inputs, targets = data
        optimizer.zero_grad()
        scaler.scale(F.mse_loss(model(inputs), targets)).backward()
        scaler.step(optimizer)
        if between is not None:
            between()
        scaler.update()

    def test_is_what_it_is_without_us(self):
        for scaler in (make_scaler(), Scaler()):
            ours, optimizer, loader, model = self.wrap(scaler)
            self.assertIsInstance(scaler, (Scaler, type(make_scaler())))
            step = 0
            for _ in adl.remaining_epochs_until(10):
                for _, inputs, targets in loader:
                    before = copy.deepcopy(ours.state_dict())
                    optimizer.zero_grad()
                    loss = F.mse_loss(model(inputs), targets)
                    scaler.scale(loss * float("inf") if overflows(step) else loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                    step += 1
                    self.assertEqual(state_of(scaler), state_after(step))
                    same = all(torch.equal(before[name], tensor) for name, tensor in ours.state_dict().items())
                    self.assertEqual(same, overflows(step - 1))
            self.restart()

    def test_a_step_of_several_micro_batches_is_one(self):
        scaler = make_scaler()
        ours, optimizer, loader, model = self.wrap(scaler, local=3)
        plain = copy.deepcopy(ours)
        its = torch.optim.SGD(plain.parameters(), lr=0.05)
        for data in loader:
            self.take_step(scaler, optimizer, model, data)
        for _, inputs, targets in torch.utils.data.DataLoader(samples(), batch_size=10):
            its.zero_grad()
            F.mse_loss(plain(inputs), targets).backward()
            its.step()
        for expected, found in zip(plain.parameters(), ours.parameters()):
            self.assertTrue(torch.allclose(expected, found, atol=1e-9))
        self.assertEqual(state_of(scaler), state_after(4))

    def test_who_hands_a_step_over_gives_the_scaler_as_it_is_after_it(self):
        scaler = make_scaler()
        _, optimizer, loader, model = self.wrap(scaler)
        shared, saved = model._shared_scaler, []
        data = iter(loader)
        self.take_step(scaler, optimizer, model, next(data), between=lambda: saved.append(shared._save()))
        self.assertEqual(state_of(scaler), state_after(1))
        saved.append(shared._save())
        self.assertEqual(saved[0], saved[1])
        self.take_step(scaler, optimizer, model, next(data))
        self.assertEqual(state_of(scaler), state_after(2))

    def test_a_step_that_is_taken_over_brings_the_scaler_along(self):
        scaler = make_scaler()
        _, optimizer, loader, model = self.wrap(scaler)
        shared = model._shared_scaler
        others = make_scaler()
        others.load_state_dict(dict(scaler.state_dict(), scale=4.0, _growth_tracker=7))
        for number, (_, inputs, targets) in enumerate(loader):
            optimizer.zero_grad()
            scaler.scale(F.mse_loss(model(inputs), targets)).backward()
            if number == 1:
                # As the engine does in the optimiser's step.
                shared._load(_encoding.to_text(others.state_dict(), "scaler").encode())
            scaler.step(optimizer)
            scaler.update()
            self.assertEqual(state_of(scaler), [state_after(1), (4.0, 7), (4.0, 8), (4.0, 9)][number])


class ReplicasTest(unittest.TestCase):
    def test_one_replica_that_overflows_lets_all_leave_the_step_out(self):
        code, output = run("scaled", replicas=2)
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count("alike: True, as alone: True, overflowed: True"), 2, output)
