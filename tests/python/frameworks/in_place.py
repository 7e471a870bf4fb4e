"""What the jobs whose replicas change while they train have in common: what they learn, and what they write down, as
tests/integration/python/recorded_job.py has it, so that the same test reads it: "<pid>.steps" with each step's samples and state,
and "<pid>.weights" at the end; and for frameworks_test.py, in a folder of its own, "end-<pid>", what came out, and "sums-<pid>"."""

import hashlib
import os
import time
from typing import Any, Dict, List

import torch
from torch import nn
from torch.utils.data import Dataset

SAMPLES = 70
# Long enough for faults to fall into a step.
STEP_TIME = 0.015


class Samples(Dataset):
    """Each sample with its number."""

    def __init__(self) -> None:
        self.inputs = torch.randn(SAMPLES, 3, generator=torch.Generator().manual_seed(1), dtype=torch.double)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, number: int) -> Dict[str, Any]:
        return {"number": number, "inputs": self.inputs[number], "labels": self.inputs[number].sum(0, keepdim=True)}


def network() -> nn.Module:
    """That of the first replica is what all begin with."""
    torch.manual_seed(1 if int(os.environ.get("ADAPTDL_REPLICA_RANK", "0")) == 0 else os.getpid())
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double()


def make_optimizer(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


def make_scheduler(optimizer: torch.optim.Optimizer) -> Any:
    """Each rate comes from the one before: a step too many is never made up for."""
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)


class Record:
    """The steps of this process, in whole lines, each with one write: a killed process leaves no half of one."""

    def __init__(self, folder: str, ends: str) -> None:
        from adaptdl import _job
        from adaptdl.torch import Accumulator
        self._job = _job.job()
        self._folder, self._ends = folder, ends
        self._file = os.open(f"{folder}/{os.getpid()}.steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._step = self._group = -1
        self._sums = Accumulator()

    def _write(self, *words: Any) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())

    def begin(self, numbers: List[int]) -> None:
        """A step begins, with these samples here."""
        place = self._job.place()
        self._step, self._group = place.optimizer_steps, place.group
        self._write("begin", self._step, self._group, *([] if place.stand_in else numbers))
        self._sums["samples"] += len(numbers)
        time.sleep(STEP_TIME)

    def end(self, optimizer: torch.optim.Optimizer, *counts: int) -> None:
        """It is over. `counts`: what the framework counts."""
        if self._job.place().optimizer_steps == self._step + 1:
            self._write("end", self._step, self._group, _checksum(optimizer, counts))

    def end_epoch(self, epoch: int) -> None:
        """Notes the sum over all replicas and epochs. What a replica had added in an epoch in which it was killed is missing."""
        with self._sums.synchronized(), open(f"{self._ends}/sums-{os.getpid()}", "a", encoding="ascii") as file:
            print(epoch, self._sums["samples"], file=file)

    def to_finish(self) -> bool:
        """Whether the test wants the job to end. Not all replicas may see it at once."""
        return os.path.exists(f"{self._folder}/finish")

    def finish(self, model: nn.Module, epochs: int) -> None:
        """What came out, to the last bit."""
        with open(f"{self._folder}/{os.getpid()}.weights", "w", encoding="ascii") as file:
            print(epochs, *(value.hex() for p in model.parameters() for value in p.detach().flatten().tolist()), sep="\n", file=file)


def _checksum(optimizer: torch.optim.Optimizer, counts: Any) -> int:
    """Of all bits of parameters and moments, of the learning rate, and of `counts`."""
    digest = hashlib.sha256(repr((optimizer.param_groups[0]["lr"], counts)).encode())
    for parameter in optimizer.param_groups[0]["params"]:
        for tensor in [parameter, *optimizer.state[parameter].values()]:
            digest.update(tensor.detach().numpy().tobytes())
    return int.from_bytes(digest.digest()[:7], "big")


def save_end(folder: str, model: nn.Module, optimizer: torch.optim.Optimizer, epochs: int, steps: int) -> None:
    """For the comparison with the plain script."""
    torch.save({"state": model.state_dict(), "rate": optimizer.param_groups[0]["lr"], "steps": steps, "epoch": epochs},
               f"{folder}/end-{os.getpid()}")
