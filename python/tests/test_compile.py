"""Models that torch.compile has compiled. Takes a C++ compiler and a minute;
scripts/test-python.sh runs it."""

import unittest

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import adaptdl.torch as adl
from support import JobTest

SAMPLES, BATCH, EPOCHS = 40, 10, 2


def network():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def train(model, optimizer, loader):
    """One pass."""
    for inputs, targets in loader:
        optimizer.zero_grad()
        F.mse_loss(model(inputs), targets).backward()
        optimizer.step()


@unittest.skipUnless(hasattr(torch, "compile"), "this PyTorch has no torch.compile")
class CompileTest(JobTest):

    def check(self, wrap):
        """Trains as the plain loop does, which has the same order of samples."""
        inputs = torch.randn(SAMPLES, 4)
        dataset = TensorDataset(inputs, inputs.sum(1, keepdim=True))
        plain, ours = network(), network()
        optimizer = torch.optim.SGD(plain.parameters(), lr=.05, momentum=.9)
        own = torch.optim.SGD(ours.parameters(), lr=.05, momentum=.9)
        loader = adl.AdaptiveDataLoader(dataset, batch_size=BATCH)
        model = wrap(ours, own)
        for _ in adl.remaining_epochs_until(EPOCHS):
            train(model, own, loader)
        for _ in range(EPOCHS):
            train(plain, optimizer, DataLoader(dataset, batch_size=BATCH))
        for one, other in zip(plain.parameters(), ours.parameters()):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        self.assertFalse(torch.equal(network()[0].weight, ours[0].weight))

    def test_compiled_before_it_is_wrapped(self):
        self.check(lambda model, optimizer: adl.AdaptiveDataParallel(torch.compile(model), optimizer))

    def test_the_wrapper_is_compiled(self):
        self.check(lambda model, optimizer: torch.compile(adl.AdaptiveDataParallel(model, optimizer)))

    def test_compiled_in_place(self):
        def wrap(model, optimizer):
            model.compile()
            return adl.AdaptiveDataParallel(model, optimizer)
        self.check(wrap)


if __name__ == "__main__":
    unittest.main()
