"""Models on the CPU, and on a GPU where there is one."""

import os
import unittest

import torch
import torch.nn.functional as F
from support import JobTest, run
from torch import nn
from torch.utils.data import TensorDataset

import adaptdl.torch as adl
from adaptdl import Error
from adaptdl.torch import _devices

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
SAMPLES = 200
BATCH = 8


def samples():
    random = torch.Generator().manual_seed(3)
    inputs = torch.randn(SAMPLES, 4, generator=random)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


def network(device, dropout=0.0):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(dropout), nn.Linear(8, 1)).to(device)


def train(model, optimizer, loader, device):
    for inputs, targets in loader:
        optimizer.zero_grad()
        F.mse_loss(model(inputs.to(device)), targets.to(device)).backward()
        optimizer.step()


class DevicesTest(JobTest):
    def on_all_devices(self, test):
        for device in DEVICES:
            with self.subTest(device=device):
                test(device)
                self.restart()

    def expect_equal(self, expected, found):
        for name, tensor in expected.state_dict().items():
            self.assertTrue(torch.equal(tensor, found.state_dict()[name]), name)

    def test_takes_the_steps_of_the_plain_loop_to_the_last_bit(self):
        def test(device):
            plain = network(device)
            optimizer = torch.optim.Adam(plain.parameters(), lr=0.01)
            for _ in range(2):
                train(plain, optimizer, torch.utils.data.DataLoader(samples(), batch_size=BATCH), device)
            ours = network(device)
            optimizer = torch.optim.Adam(ours.parameters(), lr=0.01)
            loader = adl.AdaptiveDataLoader(samples(), batch_size=BATCH)
            model = adl.AdaptiveDataParallel(ours, optimizer)
            for _ in adl.remaining_epochs_until(2):
                train(model, optimizer, loader, device)
            self.expect_equal(plain, ours)

        self.on_all_devices(test)

    def test_goes_on_from_a_checkpoint_to_the_last_bit(self):
        def run_until(epochs, device):
            ours = network(device, dropout=0.2)
            optimizer = torch.optim.Adam(ours.parameters(), lr=0.01)
            loader = adl.AdaptiveDataLoader(samples(), batch_size=BATCH)
            model = adl.AdaptiveDataParallel(ours, optimizer)
            for _ in adl.remaining_epochs_until(epochs):
                train(model, optimizer, loader, device)
            return ours

        def test(device):
            os.environ["ADAPTDL_CHECKPOINT_PATH"] = os.path.join(self.folder, device)
            run_until(1, device)
            self.restart()
            interrupted = run_until(2, device)
            self.restart()
            del os.environ["ADAPTDL_CHECKPOINT_PATH"]
            self.expect_equal(run_until(2, device), interrupted)

        self.on_all_devices(test)

    def test_micro_batches_come_to_the_same(self):
        def test(device):
            models = []
            for most in (0, 3):
                ours = nn.Linear(4, 1).to(device)
                nn.init.ones_(ours.weight)
                nn.init.zeros_(ours.bias)
                optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
                loader = adl.AdaptiveDataLoader(samples(), batch_size=BATCH, max_local_batch_size=most)
                train(adl.AdaptiveDataParallel(ours, optimizer), optimizer, loader, device)
                models.append(ours.weight.detach().cpu())
                self.restart()
            self.assertTrue(torch.allclose(models[0], models[1], rtol=1e-4))

        self.on_all_devices(test)

    def test_other_devices_are_refused(self):
        model = nn.Linear(4, 1, device="meta")
        with self.assertRaisesRegex(Error, "on meta; it can be on a CPU or on a CUDA GPU"):
            adl.AdaptiveDataParallel(model, torch.optim.SGD(model.parameters(), lr=0.1))

    def test_several_devices_are_refused(self):
        model = nn.Sequential(nn.Linear(4, 1), nn.Linear(1, 1, device="meta"))
        with self.assertRaisesRegex(Error, r"0.weight on cpu and 1.weight on meta; .* one device"):
            adl.AdaptiveDataParallel(model, torch.optim.SGD(model.parameters(), lr=0.1))


class ReplicasTest(unittest.TestCase):
    def test_take_the_steps_of_the_plain_loop(self):
        for device in DEVICES:
            with self.subTest(device=device):
                code, output = run("train", 0, 0, 2, "Adam", device, replicas=2)
                self.assertEqual(code, 0, output)
                self.assertIn("once: True, alike: True, as plain: True", output)


class TensorAtTest(unittest.TestCase):
    def test_is_the_memory_itself_for_as_long_as_it_is_used(self):
        gone = []

        class Owner:
            def __del__(self):
                gone.append(True)

        for device in DEVICES:
            memory = torch.arange(6.0, device=device)
            seen = _devices.tensor_at(memory.data_ptr(), memory.reshape(2, 3), (1, 2), Owner())
            self.assertEqual(seen.device, memory.device)
            self.assertEqual(seen.tolist(), [[0, 2, 4], [1, 3, 5]])
            self.assertFalse(seen._is_view())
            seen[1, 2] = 7
            self.assertEqual(memory[5].item(), 7)
            self.assertFalse(gone)
            del seen
            self.assertTrue(gone.pop())


if __name__ == "__main__":
    unittest.main()
