#!/usr/bin/env python3
"""What AdaptDL's tests of noise scales and scaling rules say of training, with an AdaptiveDataParallel: optimisation arrives
where it is to, with noise, accumulated gradients, several parameter groups, and gradients that are not finite.

    scaling_test.py BUILD_FOLDER      with PyTorch
"""

import math
import sys
import unittest

sys.path.insert(0, sys.argv.pop(1) + "/python")

try:
    import torch
except ImportError as error:
    print(f"SKIPPED: {sys.executable} has no PyTorch ({error})", file=sys.stderr)
    sys.exit(77)

import adaptdl.collective  # noqa: E402
import adaptdl.torch as adl  # noqa: E402
from adaptdl.torch.scaling_rules import AdaScale  # noqa: E402

STEPS = 20000


class Valley(torch.nn.Module):
    """Rosenbrock's function, least at (1, 1): its mean over the noise of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.x = torch.nn.Parameter(torch.tensor([1.0]))
        self.y = torch.nn.Parameter(torch.tensor([1.5]))

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        """`noise`: what each sample's two parts are multiplied by."""
        return noise[:, 0] * (1 - self.x) ** 2 + noise[:, 1] * 100 * (self.y - self.x ** 2) ** 2


class Distance(torch.nn.Module):
    """A square, least where the target is."""

    def __init__(self) -> None:
        super().__init__()
        self.at = torch.nn.Parameter(torch.tensor([1.0]))

    def forward(self, targets: torch.Tensor) -> torch.Tensor:
        """The mean over the targets."""
        return (self.at - targets) ** 2


class ScalingTest(unittest.TestCase):

    def setUp(self) -> None:
        torch.manual_seed(0)

    def tearDown(self) -> None:
        adaptdl.collective.teardown()

    def arrives(self, noise, batch_size: int, groups: int = 1, **options) -> bool:
        """Trains until (1, 1) is reached."""
        loader = adl.AdaptiveDataLoader(noise, batch_size=batch_size, **options)
        valley = Valley()
        parameters = list(valley.parameters())
        split = [{"params": [parameter]} for parameter in parameters] if groups == 2 else parameters
        optimizer = torch.optim.SGD(split, lr=0.001)
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1000])
        schedule.gamma = 1.0
        model = adl.AdaptiveDataParallel(valley, optimizer, schedule, scaling_rule=AdaScale(), statistics_period=1)
        for batch in loader:
            optimizer.zero_grad()
            model(batch).mean().backward()
            optimizer.step()
            if not loader.is_accum_step():
                schedule.step()
            if all(math.isclose(value.item(), 1, abs_tol=0.01) for value in parameters):
                return model.gns.var_avg() >= 0 and model.gns.sqr_avg() >= 0
        return False

    def test_arrives(self) -> None:
        self.assertTrue(self.arrives(torch.ones(STEPS, 2), 1))

    def test_arrives_with_two_groups(self) -> None:
        self.assertTrue(self.arrives(torch.ones(STEPS, 2), 1, groups=2))

    def test_arrives_with_noise(self) -> None:
        noise = torch.normal(1.0, 0.2, (4 * STEPS, 2))
        self.assertTrue(self.arrives(noise, 4, base_batch_size=2))

    def test_arrives_with_accumulated_gradients(self) -> None:
        noise = torch.normal(1.0, 0.2, (2 * STEPS, 2))
        self.assertTrue(self.arrives(noise, 2, max_local_batch_size=1))

    def test_gradients_that_are_not_finite_spoil_nothing(self) -> None:
        targets = torch.full((2000,), 4.0)
        targets[torch.rand(2000) > 0.5] = float("nan")
        distance = Distance()
        optimizer = torch.optim.SGD(distance.parameters(), lr=0.1)
        model = adl.AdaptiveDataParallel(distance, optimizer, statistics_period=1)
        left_out = 0
        for batch in adl.AdaptiveDataLoader(targets, batch_size=1):
            optimizer.zero_grad()
            loss = model(batch).mean()
            loss.backward()
            if math.isfinite(loss.item()):
                optimizer.step()
            else:
                left_out += 1
        self.assertGreater(left_out, 100)
        self.assertAlmostEqual(distance.at.item(), 4, delta=0.01)
        self.assertTrue(math.isfinite(model.gns.sqr_avg()) and math.isfinite(model.gns.var_avg()))


if __name__ == "__main__":
    unittest.main()
