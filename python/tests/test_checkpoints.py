"""What a job keeps over restarts."""

import ctypes
import math
import os
import pickle
import unittest

import torch
import torch.nn.functional as F
from support import JobTest, request_stop
from torch import nn
from torch.utils.data import TensorDataset

import adaptdl.checkpoint
import adaptdl.env
import adaptdl.torch as adl
from adaptdl import Error, _job
from adaptdl.torch import _encoding
from adaptdl.torch._tensor_states import OptimizerState

SAMPLES = 24


def samples():
    random = torch.Generator().manual_seed(3)
    inputs = torch.randn(SAMPLES, 4, generator=random)
    return TensorDataset(torch.arange(SAMPLES), inputs, inputs.sum(1, keepdim=True))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


class Count(adaptdl.checkpoint.State):
    """A state of a program's own."""
    def __init__(self, name="count"):
        super().__init__(name)
        self.value = 0

    def save(self, fileobj):
        pickle.dump(self.value, fileobj)

    def load(self, fileobj):
        self.value = pickle.load(fileobj)


class CheckpointTest(JobTest):
    def setUp(self):
        super().setUp()
        os.environ["ADAPTDL_CHECKPOINT_PATH"] = self.folder

    def train(self, make_optimizer=sgd, stop_after=None, epochs=2, make_model=lambda: nn.Linear(4, 1)):
        """Trains, and stops after so many steps, as the scheduler would have it; gives the model and the
        samples."""
        torch.manual_seed(1)
        ours = make_model()
        optimizer = make_optimizer(ours)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=4, shuffle=True)
        model = adl.AdaptiveDataParallel(ours, optimizer, scheduler)
        seen, steps = [], 0
        try:
            for _ in adl.remaining_epochs_until(epochs):
                for indices, inputs, targets in loader:
                    if stop_after is not None and steps == stop_after:
                        request_stop()
                    seen.append(indices.tolist())
                    optimizer.zero_grad()
                    F.mse_loss(model(inputs), targets).backward()
                    optimizer.step()
                    scheduler.step()
                    steps += 1
        except SystemExit as end:
            self.assertEqual(end.code, 143)
            seen.append("stopped")
        return ours, optimizer, seen

    def expect_to_go_on(self, make_optimizer):
        whole, optimizer, all_samples = self.train(make_optimizer)
        expected = {name: tensor.clone() for name, tensor in whole.state_dict().items()}
        rate = optimizer.param_groups[0]["lr"]
        self.restart()
        for name in os.listdir(self.folder):
            self.remove(os.path.join(self.folder, name))
        _, _, first = self.train(make_optimizer, stop_after=8)
        self.assertEqual(first[-1], "stopped")
        self.restart()
        ours, optimizer, rest = self.train(make_optimizer)
        self.assertEqual(first[:-1] + rest, all_samples)
        for name, tensor in ours.state_dict().items():
            self.assertTrue(torch.equal(tensor, expected[name]), name)
        self.assertEqual(optimizer.param_groups[0]["lr"], rate)

    @staticmethod
    def remove(folder):
        for name in os.listdir(folder):
            os.remove(os.path.join(folder, name))
        os.rmdir(folder)

    def test_goes_on_within_the_epoch_as_if_it_had_not_stopped(self):
        self.expect_to_go_on(sgd)

    def test_with_optimisers_of_other_kinds(self):
        for make in (lambda model: torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True),
                     lambda model: torch.optim.Adadelta(model.parameters()),
                     lambda model: torch.optim.Adagrad(model.parameters(), lr=0.1)):
            self.expect_to_go_on(make)
            self.restart()
            for name in os.listdir(self.folder):
                self.remove(os.path.join(self.folder, name))

    def test_a_model_that_has_changed_is_refused_and_not_touched(self):
        self.train(stop_after=3)
        self.restart()
        with self.assertRaisesRegex(Error, "lacks.*weight.*was the program changed"):
            self.train(make_model=lambda: nn.Sequential(nn.Linear(4, 1)))
        self.restart()
        with self.assertRaisesRegex(Error, "in the checkpoint"):
            self.train(make_model=lambda: nn.Linear(4, 2))

    def test_an_optimiser_that_has_changed_is_refused(self):
        self.train(stop_after=3)
        self.restart()
        with self.assertRaisesRegex(Error, "parameter groups of"):
            self.train(lambda model: torch.optim.SGD([{"params": [p]} for p in model.parameters()], lr=0.1))

    def test_a_step_that_is_taken_over_leaves_the_rate_to_the_schedule(self):
        job, optimizers, states = _job.job().meet(), [], []
        for number in range(2):
            ours = nn.Linear(4, 1)
            optimizers.append(torch.optim.Adam(ours.parameters(), lr=0.1))
            F.mse_loss(ours(torch.ones(1, 4)), torch.ones(1, 1)).backward()
            optimizers[-1].step()
            states.append(OptimizerState(job, f"optimizer-{number}", optimizers[-1]))
            states[-1].state.register()
        (behind, its), (_, ahead) = zip(states, optimizers)
        # The schedule has gone on there, and here it is about to.
        ahead.param_groups[0]["lr"] = 0.05
        tensors, text = states[1]._read()
        places = behind._place([(name, dtype, tuple(shape)) for name, dtype, shape, _ in tensors], text)
        for (_, dtype, shape, address), place in zip(tensors, places):
            self.assertEqual(dtype, "F32")
            ctypes.memmove(place, address, 4 * math.prod(shape))
        behind._commit()
        self.assertEqual(its.param_groups[0]["lr"], 0.1)
        for one, other in zip(its.state.values(), ahead.state.values()):
            self.assertTrue(all(torch.equal(one[name], other[name]) for name in ("exp_avg", "exp_avg_sq")))

    def test_a_state_of_ones_own(self):
        count = Count()
        self.assertFalse(adaptdl.checkpoint.load_state(count))
        count.value = 7
        self.assertTrue(adaptdl.checkpoint.save_all_states())
        count.value = 8
        self.assertTrue(adaptdl.checkpoint.save_all_states())
        self.restart()
        again = Count()
        self.assertEqual(again.value, 0)
        self.assertTrue(adaptdl.checkpoint.load_state(again))
        self.assertEqual(again.value, 8)

    def test_a_state_that_nobody_asks_for_stays_what_it_was(self):
        Count().value = 7
        adaptdl.checkpoint.save_all_states()
        self.restart()
        Count()
        adaptdl.checkpoint.save_all_states()
        self.restart()
        count = Count()
        self.assertTrue(adaptdl.checkpoint.load_state(count))
        self.assertEqual(count.value, 7)

    def test_a_fork_goes_on_where_its_parent_was_with_settings_of_its_own(self):
        def begin(learning_rate, epochs):
            model = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
            loader = adl.AdaptiveDataLoader(samples(), batch_size=4)
            wrapped = adl.AdaptiveDataParallel(model, optimizer)
            if adaptdl.env.start_path():
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate
            before = [parameter.detach().clone() for parameter in model.parameters()]
            seen = []
            for epoch in adl.remaining_epochs_until(epochs):
                seen.append(epoch)
                for _, inputs, targets in loader:
                    optimizer.zero_grad()
                    F.mse_loss(wrapped(inputs), targets).backward()
                    optimizer.step()
            return seen, optimizer.param_groups[0]["lr"], before, [parameter.detach().clone() for parameter in
                                                                   model.parameters()]

        epochs, _, _, ended = begin(0.05, 2)
        self.assertEqual(epochs, [0, 1])
        os.environ["ADAPTDL_START_PATH"] = self.folder
        os.environ["ADAPTDL_CHECKPOINT_PATH"] = os.path.join(self.folder, "of-the-fork")
        self.addCleanup(os.environ.pop, "ADAPTDL_START_PATH", None)
        self.restart()
        epochs, rate, began, forked = begin(0.01, 3)
        self.assertEqual((epochs, rate), ([2], 0.01))
        self.assertTrue(all(map(torch.equal, began, ended)))
        # It has a checkpoint of its own now, which brings what it has set.
        del os.environ["ADAPTDL_START_PATH"]
        self.restart()
        epochs, rate, began, _ = begin(0.5, 4)
        self.assertEqual((epochs, rate), ([3], 0.01))
        self.assertTrue(all(map(torch.equal, began, forked)))

    def test_names_are_unique(self):
        Count()
        self.assertRaises(ValueError, Count)
        self.assertRaises(ValueError, Count, "no/path")

    def test_a_state_whose_class_has_changed_fails_with_its_error(self):
        class Other(Count):
            def load(self, fileobj):
                raise KeyError("another class")

        adaptdl.checkpoint.load_state(Count())
        adaptdl.checkpoint.save_all_states()
        self.restart()
        with self.assertRaisesRegex(KeyError, "another class"):
            adaptdl.checkpoint.load_state(Other())

    def test_without_a_folder_nothing_is_saved(self):
        del os.environ["ADAPTDL_CHECKPOINT_PATH"]
        self.assertFalse(adaptdl.checkpoint.save_all_states())

    def test_sums_are_synchronised_once(self):
        for run in range(2):
            for _ in adl.remaining_epochs_until(1):
                sums = adl.Accumulator()
                sums["before"] += 1
                with sums.synchronized():
                    self.assertEqual(sums["before"], 1)
                loader = adl.AdaptiveDataLoader(samples(), batch_size=4)
                try:
                    for number, _ in enumerate(loader):
                        sums["in"] += 1
                        if run == 0 and number == 3:
                            request_stop()
                except SystemExit:
                    break
                with sums.synchronized():
                    self.assertEqual((sums["before"], sums["in"]), (1, 6))
            self.restart()


class EncodingTest(unittest.TestCase):
    def test_gives_back_what_it_got(self):
        value = {
            "a": [1, 2.5, None, True], ("no", 1)[0]: (float("inf"), "text"), 3: {"lr": torch.tensor(0.5)}
        }
        found = _encoding.from_text(_encoding.to_text(value, "it"))
        self.assertEqual(found[3].pop("lr").item(), value[3].pop("lr").item())
        self.assertEqual(found, value)

    def test_refuses_what_would_need_a_pickle(self):
        with self.assertRaisesRegex(Error, "it.a is a object"):
            _encoding.to_text({"a": object()}, "it")


if __name__ == "__main__":
    unittest.main()
