#!/usr/bin/env python3
"""A job that notes what it does, as tests/integration/chaos/chaos_job.cc has it, in one file
"<folder>/<pid>.steps" per process, and "<folder>/<pid>.weights" at the end. Trains until the file
"<folder>/finish" is there.

    recorded_job.py FOLDER [WORKERS [DATA]]     WORKERS: processes that read the data; DATA: indices, streams or text
"""

import hashlib
import os
import sys
import time
import types

import torch
import torch.nn.functional as F
from torch.utils.data import Dataset, IterableDataset

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


class Streams(IterableDataset):
    """The same samples, in shards of different lengths."""
    def __init__(self):
        self.samples = Samples()

    def shards(self):
        """Ranges of them."""
        ends = [0, 3, 40, 41, 60, 85, 100, 110, SAMPLES]
        return [range(begin, end) for begin, end in zip(ends, ends[1:])]

    def read(self, shard):
        """One after the other."""
        for index in shard:
            yield self.samples[index]


class Text(list):
    """A text for an iterator of texts: the words are the numbers from 0 on."""
    pad_token = None
    batch_first = False

    def __init__(self, words):
        super().__init__([types.SimpleNamespace(text=list(range(words)))])
        self.fields = {"text": self}

    def numericalize(self, texts, device):
        """They are."""
        return torch.tensor(texts, device=device)


class Words:
    """The same samples, in the order of a text that is read as columns, a word of each at a time."""
    def __init__(self):
        self.samples = Samples()
        self.rows = SAMPLES // BATCH + 1
        self.loader = adl.AdaptiveBPTTIterator(Text(BATCH * self.rows), BATCH, 1)

    def __iter__(self):
        for batch in self.loader:
            yield self.samples[batch.text[0] % self.rows * BATCH + batch.text[0] // self.rows]


class Model(torch.nn.Module):
    """Beside its weights it has one parameter per sample, which counts the uses of the sample."""
    def __init__(self, norm):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 8), norm(8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
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


def make_loader(data, workers):
    """Of these data."""
    if data == "text":
        return Words()
    samples = {"indices": Samples, "streams": Streams}[data]()
    return adl.AdaptiveDataLoader(samples, batch_size=BATCH, shuffle=True, seed=3, num_workers=workers)


def main():
    folder, workers, data = (sys.argv[1:] + ["0", "indices"][len(sys.argv) - 2:])[:3]
    torch.set_num_threads(1)
    adl.init_process_group("gloo")
    torch.manual_seed(os.getpid())  # all are to begin with rank 0's model
    # A share of a stream's last batches may be one sample, of which there is no BatchNorm.
    plain = Model(torch.nn.LayerNorm if data == "streams" else torch.nn.BatchNorm1d)
    optimizer = torch.optim.SGD([{"params": plain.net.parameters(), "lr": 0.002, "momentum": 0.9},
                                 {"params": [plain.uses], "lr": float(BATCH)}],
                                lr=0.002)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1000)
    loader = make_loader(data, int(workers))
    model = adl.AdaptiveDataParallel(plain, optimizer, scheduler)
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
            (F.mse_loss(outputs, targets) + uses).backward()
            optimizer.step()
            scheduler.step()
            if job.place().optimizer_steps == step + 1:
                record.write("end", step, group, checksum(plain, optimizer))
        done = epoch + 1
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
