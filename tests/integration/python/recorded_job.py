#!/usr/bin/env python3
"""A job that notes what it does, as tests/integration/chaos/chaos_job.cc has it, in one file
"<folder>/<pid>.steps" per process, and "<folder>/<pid>.weights" at the end. Trains until the file
"<folder>/finish" is there.

    recorded_job.py FOLDER [WORKERS [distributed]]     WORKERS: processes that read the data

"distributed": its replicas tell each other things by torch.distributed, in each step and between epochs; what
comes out must be what all of them have said, wherever the step counts.
"""

import hashlib
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.utils.data import Dataset

import adaptdl.torch as adl
from adaptdl import _job

SAMPLES = 120
BATCH = 12
# Long enough for faults to fall into a step.
STEP_TIME = 0.015


class Samples(Dataset):
    """Each sample with its number."""
    def __init__(self):
        random = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(SAMPLES, 3, generator=random, dtype=torch.double)
        self.targets = self.inputs.sum(1, keepdim=True)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return index, self.inputs[index], self.targets[index]


class Model(torch.nn.Module):
    """Beside its weights it has one parameter per sample, which counts the uses of the sample."""
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(),
                                       torch.nn.Linear(8, 1)).double()
        self.uses = torch.nn.Parameter(torch.zeros(SAMPLES, dtype=torch.double))

    def forward(self, indices, inputs):
        return self.net(inputs), self.uses[indices].mean()


class Record:
    """Whole lines, each with one write: a killed process leaves no half of one."""
    def __init__(self, folder):
        self._file = os.open(f"{folder}/{os.getpid()}.steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *words):
        os.write(self._file, (" ".join(str(word) for word in words) + "\n").encode())


def checksum(model, optimizer):
    """Of all bits of the parameters, and of the optimiser's moments."""
    tensors = [
        *model.parameters(), *(state["momentum_buffer"]
                               for state in optimizer.state.values()
                               if state.get("momentum_buffer") is not None)
    ]
    digest = hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)).digest()
    return int.from_bytes(digest[:7], "big")


def tell(samples):
    """What replicas say in a step: how many samples all of them have, and who they are."""
    total = torch.tensor([samples])
    dist.all_reduce(total)
    names = [None] * dist.get_world_size()
    dist.all_gather_object(names, os.getpid())
    rank = torch.tensor([dist.get_rank()])
    dist.broadcast(rank, 0)
    words = ["of rank", dist.get_rank()]
    dist.broadcast_object_list(words, src=0)
    return total.item(), names, rank.item(), words


def check(told, group):
    """The step counts, and what was told in it."""
    total, names, rank, words = told
    assert total == BATCH and rank == 0 and words == ["of rank", 0], told
    # Of a group that is still there.
    if _job.job().place().group == group:
        assert len(set(names)) == len(names) == dist.get_world_size(), names
        assert os.getpid() == names[dist.get_rank()], names


def check_between_epochs(done):
    """Outside of loops: newcomers get what the others got."""
    epochs = [torch.empty(1, dtype=torch.long) for _ in range(dist.get_world_size())]
    dist.all_gather(epochs, torch.tensor([done]))
    assert [epoch.item() for epoch in epochs] == [done] * len(epochs), epochs
    dist.barrier()


def main():
    folder, workers = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    distributed = "distributed" in sys.argv
    torch.set_num_threads(1)
    adl.init_process_group("gloo")
    torch.manual_seed(os.getpid())  # all are to begin with rank 0's model
    plain = Model()
    optimizer = torch.optim.SGD([{"params": plain.net.parameters(), "lr": 0.002, "momentum": 0.9},
                                 {"params": [plain.uses], "lr": float(BATCH)}],
                                lr=0.002)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1000)
    loader = adl.AdaptiveDataLoader(Samples(), batch_size=BATCH, shuffle=True, seed=3, num_workers=workers)
    model = adl.AdaptiveDataParallel(plain, optimizer, scheduler)
    record, job = Record(folder), _job.job()
    done = 0
    for epoch in adl.remaining_epochs_until(2**31 - 1):
        for indices, inputs, targets in loader:
            place = job.place()
            step, group = place.optimizer_steps, place.group
            mine = [] if place.stand_in else indices.tolist()
            record.write("begin", step, group, *mine)
            time.sleep(STEP_TIME)
            told = tell(len(mine)) if distributed else None
            optimizer.zero_grad()
            outputs, uses = model(indices, inputs)
            (F.mse_loss(outputs, targets) + uses).backward()
            optimizer.step()
            scheduler.step()
            if job.place().optimizer_steps == step + 1:
                record.write("end", step, group, checksum(plain, optimizer))
                if distributed:
                    check(told, group)
        done = epoch + 1
        if distributed:
            check_between_epochs(done)
        told = adl.Accumulator()
        told["to finish"] += int(os.path.exists(folder + "/finish"))
        with told.synchronized():
            if told["to finish"] > 0:
                break
    with open(f"{folder}/{os.getpid()}.weights", "w", encoding="ascii") as file:
        print(done,
              *(value.hex() for p in plain.parameters() for value in p.detach().flatten().tolist()),
              sep="\n",
              file=file)


if __name__ == "__main__":
    main()
