"""Steps of one replica: they are those of the program without the package."""

import copy
import unittest
import warnings

import torch
import torch.nn.functional as F
from plain import SAMPLES, adam, network, samples, sgd, take_steps
from support import JobTest
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import adaptdl.torch as adl
from adaptdl import Error, _job
from adaptdl.torch import scaling_rules


class StepsTest(JobTest):
    def expect_as_plain(self, make_optimizer, epochs=3, **kwargs):
        plain = network()
        take_steps(plain, make_optimizer(plain),
                   list(torch.utils.data.DataLoader(samples(), batch_size=8)) * epochs, **kwargs)
        ours = network()
        optimizer = make_optimizer(ours)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=8)
        model = adl.AdaptiveDataParallel(ours, optimizer)
        for _ in adl.remaining_epochs_until(epochs):
            take_steps(model, optimizer, loader, **kwargs)
        for expected, found in zip(plain.state_dict().values(), ours.state_dict().values()):
            self.assertTrue(torch.equal(expected, found))

    def test_takes_the_steps_of_the_plain_loop_to_the_last_bit(self):
        self.expect_as_plain(sgd)

    def test_with_adam_whose_moments_weigh_the_statistics(self):
        self.expect_as_plain(adam)

    def test_with_gradients_that_are_clipped(self):
        self.expect_as_plain(sgd, clip=0.1)

    def test_with_gradients_that_are_dropped_or_zeroed(self):
        self.expect_as_plain(sgd, zero=lambda optimizer: optimizer.zero_grad(set_to_none=True))
        self.restart()
        self.expect_as_plain(sgd, zero=lambda optimizer: optimizer.zero_grad(set_to_none=False))

    def test_micro_batches_add_up_to_the_batch(self):
        plain = nn.Linear(4, 1)
        ours = copy.deepcopy(plain)
        take_steps(plain, sgd(plain), torch.utils.data.DataLoader(samples(), batch_size=10))
        optimizer = sgd(ours)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=10, max_local_batch_size=4)
        model = adl.AdaptiveDataParallel(ours, optimizer)
        passes = steps = 0
        for _, inputs, targets in loader:
            optimizer.zero_grad()
            F.mse_loss(model(inputs), targets).backward()
            optimizer.step()
            passes += 1
            steps += loader.is_optim_step()
        self.assertEqual((passes, steps), (12, 4))
        for expected, found in zip(plain.parameters(), ours.parameters()):
            self.assertTrue(torch.allclose(expected, found, atol=1e-6))

    def test_the_schedule_s_state_is_as_it_would_be_without_us(self):
        ours = network()
        optimizer = sgd(ours)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        before = set(schedule.state_dict())
        adl.AdaptiveDataParallel(ours, optimizer, schedule)
        self.assertEqual(set(schedule.state_dict()), before)
        self.assertIsInstance(schedule, torch.optim.lr_scheduler.StepLR)

    def test_measures_how_noisy_gradients_are(self):
        ours = network()
        optimizer = sgd(ours)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=4)
        model = adl.AdaptiveDataParallel(ours, optimizer, statistics_period=1)
        before = model.gns.var_avg()
        take_steps(model, optimizer, loader)
        self.assertGreater(model.gns.var_avg(), before)
        self.assertEqual(len(model.gns.raw_sqr_avg), 1)
        self.assertEqual(model.gns.get_progress(), 10)
        self.assertEqual(model.gain, 1)

    def test_the_learning_rate_follows_the_batch_for_the_step_alone(self):
        ours = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(ours.parameters(), lr=0.5)
        rates = []
        own = optimizer.step

        def step(*args, **kwargs):
            rates.append(optimizer.param_groups[0]["lr"])
            return own(*args, **kwargs)

        optimizer.step = step
        loader = adl.AdaptiveDataLoader(samples(), batch_size=8, base_batch_size=2)
        model = adl.AdaptiveDataParallel(ours, optimizer, scaling_rule=scaling_rules.SqrtScale())
        take_steps(model, optimizer, loader)
        self.assertEqual(rates, [1.0] * 5)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.5)

    def test_a_rule_of_the_programs_own(self):
        class Third(scaling_rules.ScalingRuleBase):
            def scale_lr(self, scale):
                return scale / 3

        ours = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(ours.parameters(), lr=0.5)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=6, base_batch_size=3)
        model = adl.AdaptiveDataParallel(ours, optimizer, scaling_rule=Third())
        take_steps(model, optimizer, loader)
        self.assertAlmostEqual(model.learning_rate_factor, 2 / 3)

    def test_what_a_rule_raises_comes_out_of_the_step(self):
        class Wrong(scaling_rules.ScalingRuleBase):
            def scale_lr(self, scale):
                raise ZeroDivisionError("of the rule")

        ours = nn.Linear(4, 1)
        optimizer = sgd(ours)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=8)
        model = adl.AdaptiveDataParallel(ours, optimizer, scaling_rule=Wrong())
        with self.assertRaisesRegex(ZeroDivisionError, "of the rule"):
            take_steps(model, optimizer, loader)

    def test_a_scaler_that_leaves_a_step_out(self):
        scaler = FakeScaler()
        ours = nn.Linear(4, 1)
        optimizer = sgd(ours)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=8)
        model = adl.AdaptiveDataParallel(ours, optimizer, mp_scaler=scaler, statistics_period=1)
        for number, (_, inputs, targets) in enumerate(loader):
            optimizer.zero_grad()
            (F.mse_loss(model(inputs), targets) * scaler.get_scale()).backward()
            for parameter in ours.parameters():
                parameter.grad /= scaler.get_scale()
            if number != 2:
                optimizer.step()
        self.assertEqual(_job.job().place().optimizer_steps, 5)
        self.assertEqual(model.gns.get_progress(), 4)
        # As of a loss that nobody has multiplied.
        self.assertLess(model.gns.sqr_avg(), 1e4)

    def test_frozen_and_unused_parameters(self):
        ours = nn.ModuleDict({"used": nn.Linear(4, 1), "unused": nn.Linear(4, 1), "frozen": nn.Linear(4, 1)})
        ours["frozen"].requires_grad_(False)
        before = copy.deepcopy(ours.state_dict())
        optimizer = sgd(ours)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=8)
        model = adl.AdaptiveDataParallel(ours, optimizer)
        for _, inputs, targets in loader:
            optimizer.zero_grad(set_to_none=True)
            F.mse_loss(model.module["frozen"](model.module["used"](inputs).expand(-1, 4)), targets).backward()
            optimizer.step()
        self.assertIsNone(ours["unused"].weight.grad)
        self.assertFalse(torch.equal(before["used.weight"], ours["used"].weight))
        for name in ("unused.weight", "frozen.weight"):
            self.assertTrue(torch.equal(before[name], ours.state_dict()[name]))

    def test_a_schedule_counts_the_steps(self):
        ours = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(ours.parameters(), lr=1.0)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=10)
        model = adl.AdaptiveDataParallel(ours, optimizer, scheduler)
        with warnings.catch_warnings():
            # Of a scheduler that misses the optimiser's steps.
            warnings.simplefilter("error")
            for _, inputs, targets in loader:
                optimizer.zero_grad()
                F.mse_loss(model(inputs), targets).backward()
                optimizer.step()
                scheduler.step()
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.25)

    def test_a_closure(self):
        ours = nn.Linear(4, 1)
        optimizer = sgd(ours)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=20)
        model = adl.AdaptiveDataParallel(ours, optimizer)
        for _, inputs, targets in loader:

            def closure():
                optimizer.zero_grad()
                loss = F.mse_loss(model(inputs), targets)
                loss.backward()
                return loss

            self.assertGreater(optimizer.step(closure).item(), 0)

    def test_two_models_with_two_optimisers(self):
        one, other = nn.Linear(4, 4), nn.Linear(4, 1)
        first, second = sgd(one), sgd(other)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=8)
        one, other = adl.AdaptiveDataParallel(one, first, name="one"), adl.AdaptiveDataParallel(other,
                                                                                                second,
                                                                                                name="other")
        for _, inputs, targets in loader:
            for optimizer in (first, second):
                optimizer.zero_grad()
            F.mse_loss(other(one(inputs)), targets).backward()
            for optimizer in (first, second):
                optimizer.step()
        self.assertEqual(_job.job().place().optimizer_steps, 5)

    def test_checkpointed_segments_are_one_pass(self):
        from torch.utils.checkpoint import checkpoint
        torch.manual_seed(1)
        ours = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        plain = copy.deepcopy(ours)
        take_steps(plain, sgd(plain), torch.utils.data.DataLoader(samples(), batch_size=10))

        class Segments(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = ours

            def forward(self, x):
                x = x.clone().requires_grad_()
                for layer in self.layers:
                    x = checkpoint(layer, x, use_reentrant=True)
                return x

        segments = Segments()
        optimizer = sgd(segments)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=10, max_local_batch_size=5)
        model = adl.AdaptiveDataParallel(segments, optimizer)
        take_steps(model, optimizer, loader)
        for expected, found in zip(plain.parameters(), ours.parameters()):
            self.assertTrue(torch.allclose(expected, found, atol=1e-6))

    @unittest.skipUnless(hasattr(torch.amp, "GradScaler"), "this PyTorch scales losses on GPUs only")
    def test_pytorchs_scaler_leaves_out_a_step_that_overflows(self):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
        ours = nn.Linear(4, 1)
        optimizer = sgd(ours)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=8)
        model = adl.AdaptiveDataParallel(ours, optimizer, mp_scaler=scaler)
        before = ours.weight.detach().clone()
        changes = []
        for _, inputs, targets in loader:
            optimizer.zero_grad()
            scaler.scale(F.mse_loss(model(inputs), targets)).backward()
            scaler.step(optimizer)
            scaler.update()
            changes.append(not torch.equal(before, ours.weight))
        self.assertFalse(changes[0])
        self.assertEqual(_job.job().place().optimizer_steps, 5)
        self.assertLess(scaler.get_scale(), 2.0**127)

    @unittest.skipUnless(hasattr(torch, "compile"), "this PyTorch does not compile")
    def test_a_compiled_model(self):
        plain = network()
        ours = copy.deepcopy(plain)
        take_steps(plain, sgd(plain), torch.utils.data.DataLoader(samples(), batch_size=8))
        optimizer = sgd(ours)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=8)
        take_steps(adl.AdaptiveDataParallel(torch.compile(ours, backend="aot_eager"), optimizer), optimizer,
                   loader)
        for expected, found in zip(plain.parameters(), ours.parameters()):
            self.assertTrue(torch.allclose(expected, found, atol=1e-5))

    def test_autocast(self):
        ours = network()
        optimizer = sgd(ours)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=8)
        model = adl.AdaptiveDataParallel(ours, optimizer, statistics_period=1)
        for _, inputs, targets in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.mse_loss(model(inputs).float(), targets)
            loss.backward()
            optimizer.step()
        self.assertEqual(_job.job().place().optimizer_steps, 5)
        self.assertTrue(all(torch.isfinite(parameter).all() for parameter in ours.parameters()))


class FakeScaler:
    """As torch's GradScaler, of which the CPU has none before PyTorch 2.3."""
    def is_enabled(self):
        return True

    def get_scale(self):
        return 1024.0

    def state_dict(self):
        return {"scale": 1024.0}

    def load_state_dict(self, state):
        pass


class WrapperTest(JobTest):
    def test_is_a_distributed_data_parallel_by_name(self):
        ours = network()
        model = adl.AdaptiveDataParallel(ours, sgd(ours))
        self.assertIsInstance(model, DistributedDataParallel)
        self.assertIs(model.module, ours)
        self.assertTrue(all(name.startswith("module.") for name in model.state_dict()))
        self.assertFalse(model.eval().training)
        self.assertTrue(model.train().training)
        model.load_state_dict(model.state_dict())

    def test_limits_are_refused_with_a_text(self):
        ours = network()
        with self.assertRaisesRegex(TypeError, "process_group"):
            adl.AdaptiveDataParallel(ours, sgd(ours), process_group=None)
        with self.assertRaisesRegex(Error, "no parameter of the model"):
            adl.AdaptiveDataParallel(ours, sgd(nn.Linear(2, 2)))
        model = adl.AdaptiveDataParallel(ours, sgd(ours))
        with self.assertRaisesRegex(Error, "max_local_batch_size"), model.no_sync():
            pass
        with self.assertRaisesRegex(Error, "cannot be pickled"):
            copy.deepcopy(model)
        with self.assertRaisesRegex(Error, "adaptdl-dataparallel"):
            other = network()
            adl.AdaptiveDataParallel(other, sgd(other))

    def test_an_optimiser_that_grows_is_refused(self):
        ours = nn.Linear(4, 1)
        optimizer = sgd(ours)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=8)
        model = adl.AdaptiveDataParallel(ours, optimizer)
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
        with self.assertRaisesRegex(Error, "was given parameters after"):
            take_steps(model, optimizer, loader)

    def test_a_sparse_gradient_is_refused(self):
        ours = nn.Sequential(nn.Embedding(SAMPLES, 4, sparse=True), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(ours.parameters(), lr=0.1)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=8)
        model = adl.AdaptiveDataParallel(ours, optimizer, statistics_period=1)
        with self.assertRaisesRegex(Error, "sparse"):
            for indices, _, targets in loader:
                optimizer.zero_grad(set_to_none=True)
                F.mse_loss(model(indices), targets).backward()
                optimizer.step()


if __name__ == "__main__":
    unittest.main()
