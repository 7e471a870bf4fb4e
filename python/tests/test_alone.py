"""One replica: the loop of a program does what it does without the package."""

import copy
import json
import os
import unittest
import warnings

import torch
import torch.nn.functional as F
from support import JobTest
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import IterableDataset, TensorDataset

import adaptdl.collective
import adaptdl.torch as adl
from adaptdl import Error, _job, env
from adaptdl.torch import _encoding, scaling_rules

SAMPLES = 40
VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "vectors")


def samples():
    random = torch.Generator().manual_seed(3)
    inputs = torch.randn(SAMPLES, 4, generator=random)
    return TensorDataset(torch.arange(SAMPLES), inputs, inputs.sum(1, keepdim=True))


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.01)


def take_steps(model, optimizer, batches, clip=None, zero=lambda optimizer: optimizer.zero_grad()):
    for _, inputs, targets in batches:
        zero(optimizer)
        F.mse_loss(model(inputs), targets).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


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


class LoaderTest(JobTest):
    def seen(self, loader):
        return [index for indices, _, _ in loader for index in indices.tolist()]

    def test_each_sample_once_in_an_order_of_its_own_in_each_epoch(self):
        loader = adl.AdaptiveDataLoader(samples(), batch_size=7, shuffle=True)
        epochs = [self.seen(loader) for _ in adl.remaining_epochs_until(2)]
        for epoch in epochs:
            self.assertEqual(sorted(epoch), list(range(SAMPLES)))
        self.assertNotEqual(epochs[0], epochs[1])

    def test_drop_last_and_length(self):
        loader = adl.AdaptiveDataLoader(samples(), batch_size=7, drop_last=True)
        self.assertEqual(len(loader), 5)
        self.assertEqual(len(self.seen(loader)), 35)
        self.assertEqual(len(adl.AdaptiveDataLoader(samples(), batch_size=7)), 6)

    def test_reads_the_same_through_workers(self):
        for persistent in (False, True):
            loader = adl.AdaptiveDataLoader(samples(),
                                            batch_size=7,
                                            num_workers=2,
                                            persistent_workers=persistent)
            for _ in range(3):
                self.assertEqual(self.seen(loader), list(range(SAMPLES)))
            self.restart()

    def test_workers_after_a_break(self):
        loader = adl.AdaptiveDataLoader(samples(), batch_size=7, num_workers=2)
        for _ in loader:
            break
        self.assertEqual(self.seen(loader), list(range(SAMPLES)))

    def test_what_a_data_set_raises_comes_out_of_the_loop(self):
        class Broken(TensorDataset):
            def __getitem__(self, index):
                raise KeyError("of the data set")

        for workers in (0, 1):
            loader = adl.AdaptiveDataLoader(Broken(torch.zeros(4)), batch_size=2, num_workers=workers)
            with self.assertRaisesRegex(KeyError, "of the data set"):
                list(loader)
            self.restart()

    def test_loops_cannot_be_nested(self):
        loader = adl.AdaptiveDataLoader(samples(), batch_size=7)
        other = adl.AdaptiveDataLoader(samples(), batch_size=7)
        with self.assertRaisesRegex(Error, "nested"):
            for _ in loader:
                self.assertIs(adl.current_dataloader(), loader)
                list(other)
        self.assertIsNone(adl.current_dataloader())

    def test_wrong_arguments_are_refused(self):
        class Stream(IterableDataset):
            def __iter__(self):
                return iter(())

        for wrong in (lambda: adl.AdaptiveDataLoader(samples(), sampler=[1]),
                      lambda: adl.AdaptiveDataLoader(samples(), batch_sampler=[[1]]),
                      lambda: adl.AdaptiveDataLoader(samples(), batch_size=0),
                      lambda: adl.AdaptiveDataLoader(Stream())):
            self.assertRaises(ValueError, wrong)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=8)
        for arguments in ((7, None), ("many", None), (16, (9, None)), (16, (None, 7))):
            self.assertRaises(ValueError, loader.autoscale_batch_size, *arguments)

    def test_the_sampler_alone(self):
        sampler = adl.ElasticSampler(samples(), shuffle=False)
        sampler.set_epoch(0, 30)
        self.assertEqual(list(sampler), list(range(30, SAMPLES)))


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
        loader = adl.AdaptiveDataLoader(TensorDataset(torch.arange(5)), batch_size=2)
        sums = adl.Accumulator()
        adl.init_process_group("gloo", "tcp://127.0.0.1:1", world_size=1, rank=0)
        for (values, ) in loader:
            sums["seen"] += len(values)
        with sums.synchronized():
            self.assertEqual(sums["seen"], 5)
        with self.assertRaisesRegex(Error, "once"):
            adl.init_process_group("gloo")

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


class VectorsTest(JobTest):
    """AdaptDL's own results, through this package."""
    def vectors(self, name):
        with open(os.path.join(VECTORS, name), encoding="utf-8") as file:
            return json.load(file)

    def test_scaling_rules(self):
        for case in self.vectors("scaling_rules.json")["gain"]:
            sqr, var, scale = case["sqr_avg"], case["var_avg"], case["scale"]
            groups = len(sqr)
            for rule, expected in ((scaling_rules.AdaScale(),
                                    case["adascale_lr"]), (scaling_rules.AdamScale(), case["adamscale_lr"]),
                                   (scaling_rules.LinearScale(), [case["linear"]] * groups),
                                   (scaling_rules.SqrtScale(), [case["sqrt"]] * groups)):
                for found, factor in zip(rule.factors(scale, sqr, var), expected):
                    self.assertAlmostEqual(found, factor, delta=1e-6 * abs(factor))

    def test_rules_asked_as_programs_ask_them(self):
        ours = network()
        optimizer = sgd(ours)
        for rule, expected in ((scaling_rules.LinearScale(), 4.0), (scaling_rules.SqrtScale(), 2.0)):
            adl.AdaptiveDataParallel(ours, optimizer, scaling_rule=rule, name=type(rule).__name__)._engine.close()
            self.assertEqual(rule.scale_lr(4), expected)
        loader = adl.AdaptiveDataLoader(samples(), batch_size=4)
        legw = scaling_rules.LEGWScale(2, len(samples()))
        model = adl.AdaptiveDataParallel(ours, optimizer, scaling_rule=legw)
        for _, inputs, targets in loader:
            progress = model.gns.get_progress()
            self.assertAlmostEqual(legw.scale_lr(4), min(2, 2 * progress * 4 / (2 * 4 * len(samples()))))
            optimizer.zero_grad()
            F.mse_loss(model(inputs), targets).backward()
            optimizer.step()

    def test_legw(self):
        for case in self.vectors("scaling_rules.json")["legw"]:
            rule = scaling_rules.LEGWScale(case["base_warmup_epochs"], case["data_size"])
            found = rule.factors(case["scale"], [1.0], [0.0], case["progress"], case["batch_size"])
            self.assertAlmostEqual(found[0], case["lr_factor"], delta=1e-6 * abs(case["lr_factor"]) + 1e-12)

    def test_partitions_of_unshuffled_data(self):
        for case in self.vectors("sampler.json")["partitions"]:
            if case["shuffle"]:
                continue
            sampler = adl.ElasticSampler(range(case["n"]), shuffle=False)
            sampler.num_replicas = case["num_replicas"]
            sampler.set_epoch(case["epoch"], case["index"])
            for rank, expected in enumerate(case["indices_by_rank"]):
                sampler.rank = rank
                self.assertEqual(list(sampler), expected)
                self.assertEqual(len(sampler), case["len"])


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
