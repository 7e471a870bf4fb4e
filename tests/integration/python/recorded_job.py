#!/usr/bin/env python3
"""A job that notes what it does, as tests/integration/chaos/chaos_job.cc has it, in one file
"<folder>/<pid>.steps" per process, and "<folder>/<pid>.weights" at the end. Trains until the file
"<folder>/finish" is there.

    recorded_job.py FOLDER [WORKERS [scaled]]     WORKERS: processes that read the data

"scaled": with a scaler of the loss, which leaves out steps that overflow on one replica, and a schedule whose
rates come from each other. Both are part of what is noted, and in the end the scaler is what it is without us.
"""

import hashlib
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch.utils.data import Dataset

import adaptdl.collective
import adaptdl.torch as adl
from adaptdl import _job

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../python/tests"))
from scaler import make_scaler, overflows, state_after  # noqa: E402

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


def checksum(model, optimizer, scaler):
    """Of all bits of the parameters, of the optimiser's moments, and of what steps go by."""
    tensors = [
        *model.parameters(), *(state["momentum_buffer"]
                               for state in optimizer.state.values()
                               if state.get("momentum_buffer") is not None)
    ]
    rates = [group["lr"] for group in optimizer.param_groups]
    digest = hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors))
    digest.update(repr((rates, scaler.state_dict())).encode())
    return int.from_bytes(digest.digest()[:7], "big")


def main():
    folder, workers = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    scaled = sys.argv[3:] == ["scaled"]
    torch.set_num_threads(1)
    adl.init_process_group("gloo")
    torch.manual_seed(os.getpid())  # all are to begin with rank 0's model
    plain = Model()
    optimizer = torch.optim.SGD([{"params": plain.net.parameters(), "lr": 0.002, "momentum": 0.9},
                                 {"params": [plain.uses], "lr": float(BATCH)}],
                                lr=0.002)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1 if scaled else 1000, 0.9999)
    scaler = make_scaler(scaled)
    loader = adl.AdaptiveDataLoader(Samples(), batch_size=BATCH, shuffle=True, seed=3, num_workers=workers)
    model = adl.AdaptiveDataParallel(plain, optimizer, scheduler, scaler)
    record, job = Record(folder), _job.job()
    done = 0
    for epoch in adl.remaining_epochs_until(2**31 - 1):
        for indices, inputs, targets in loader:
            place = job.place()
            step, group = place.optimizer_steps, place.group
            record.write("begin", step, group, *([] if place.stand_in else indices.tolist()))
            time.sleep(STEP_TIME)
            optimizer.zero_grad()
            outputs, uses = model(indices, inputs)
            loss = F.mse_loss(outputs, targets) + uses
            if scaled and step % 2 == 1:
                # A lost replica may be missed before the backward pass, or in it.
                adaptdl.collective.gather(step)
            if scaled and overflows(step) and place.rank == 0:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            if job.place().optimizer_steps == step + 1:
                record.write("end", step, group, checksum(plain, optimizer, scaler))
                if job.place().group != group:
                    # The group broke within the step, and another member had taken it.
                    open(f"{folder}/{step}.taken_over", "w", encoding="ascii").close()
        done = epoch + 1
        told = adl.Accumulator()
        told["to finish"] += int(os.path.exists(folder + "/finish"))
        with told.synchronized():
            if told["to finish"] > 0:
                break
    if scaled:
        state, expected = scaler.state_dict(), state_after(job.place().optimizer_steps)
        assert (state["scale"], state["_growth_tracker"]) == expected, f"{state}, not {expected}"
    with open(f"{folder}/{os.getpid()}.weights", "w", encoding="ascii") as file:
        print(done,
              *(value.hex() for p in plain.parameters() for value in p.detach().flatten().tolist()),
              sep="\n",
              file=file)


if __name__ == "__main__":
    main()
