#!/usr/bin/env python3
"""A job that notes what it does in a folder (record.py). Trains until the file "<folder>/finish" is there, or for so many
epochs.

    recorded_job.py FOLDER [--data DATA] [--workers N] [--epochs N] [--without-norm] [--distributed | --scaled]

DATA: indices, streams or text. --workers: processes that read the data. --without-norm: no BatchNorm, which takes its mean over a
replica's share: then the job trains as one process does. --distributed: the replicas tell each other things by torch.distributed, in
each step and between epochs; what comes out must be what all of them have said, wherever the step counts.
--scaled: with a scaler of the loss, which leaves out steps that overflow on one replica, and a schedule whose rates come from each
other. Both are part of what is noted, and in the end the scaler is what it is without us.
"""

import argparse
import os
import sys
import time
import types

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.utils.data import Dataset, IterableDataset

import adaptdl.checkpoint
import adaptdl.collective
import adaptdl.env
import adaptdl.torch as adl
from adaptdl import _job
from record import Record, write_weights

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../python/tests"))
from scaler import make_scaler, overflows, state_after  # noqa: E402

SAMPLES = 120
BATCH = 12
# Long enough for faults to fall into a step.
STEP_TIME = 0.015
# Should no replica be left, this much is done again.
CHECKPOINT_STEPS = 100


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

    def __iter__(self):
        return iter(self.samples)


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
    """Beside its weights it has one parameter per sample, which sums up the rates that it was used with."""
    def __init__(self, norm):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 8), norm, torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
        self.uses = torch.nn.Parameter(torch.zeros(SAMPLES, dtype=torch.double))

    def forward(self, indices, inputs):
        return self.net(inputs), self.uses[indices].mean()


def norm_for(arguments):
    if arguments.without_norm:
        return torch.nn.Identity()
    # A share of a stream's last batches may be one sample, of which there is no BatchNorm.
    return torch.nn.LayerNorm(8) if arguments.data == "streams" else torch.nn.BatchNorm1d(8)


def make_model(norm, scaled):
    """All replicas are to begin with rank 0's model, which is the same at each start of the job."""
    torch.manual_seed(1 if adaptdl.env.replica_rank() == 0 else os.getpid())
    model = Model(norm)
    optimizer = torch.optim.SGD([{"params": model.net.parameters(), "lr": 0.002, "momentum": 0.9},
                                 {"params": [model.uses], "lr": float(BATCH)}],
                                lr=0.002)
    if scaled:
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9999)
    # Of a period that no number of epochs is: a step too many shows in all that follow.
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 7)


def told_to_finish(folder):
    """Whether some replica has seen that it is."""
    told = adl.Accumulator()
    told["to finish"] += int(os.path.exists(folder + "/finish"))
    with told.synchronized():
        return told["to finish"] > 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--data", choices=["indices", "streams", "text"], default="indices")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--without-norm", action="store_true")
    parser.add_argument("--distributed", action="store_true")
    parser.add_argument("--scaled", action="store_true")
    return parser.parse_args()


def make_loader(data, workers):
    """Of these data."""
    if data == "text":
        return Words()
    samples = {"indices": Samples, "streams": Streams}[data]()
    return adl.AdaptiveDataLoader(samples, batch_size=BATCH, shuffle=True, seed=3, num_workers=workers)


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
    arguments = parse_arguments()
    folder, epochs = arguments.folder, arguments.epochs
    torch.set_num_threads(1)
    adl.init_process_group("gloo")
    plain, optimizer, scheduler = make_model(norm_for(arguments), arguments.scaled)
    scaler = make_scaler(arguments.scaled)
    loader = make_loader(arguments.data, arguments.workers)
    model = adl.AdaptiveDataParallel(plain, optimizer, scheduler, scaler)
    record, job = Record(folder), _job.job()
    done = 0
    for epoch in adl.remaining_epochs_until(epochs or 2**31 - 1):
        for indices, inputs, targets in loader:
            place = job.place()
            step, group = place.optimizer_steps, place.group
            mine = [] if place.stand_in else indices.tolist()
            record.begin(step, group, mine)
            if not epochs:
                time.sleep(STEP_TIME)
            told = tell(len(mine)) if arguments.distributed else None
            optimizer.zero_grad()
            outputs, uses = model(indices, inputs)
            loss = F.mse_loss(outputs, targets) + uses
            if arguments.scaled and step % 2 == 1:
                # A lost replica may be missed before the backward pass, or in it.
                adaptdl.collective.gather(step)
            if arguments.scaled and overflows(step) and place.rank == 0:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            if job.place().optimizer_steps != step + 1:
                continue
            adaptdl.report(loss=loss.item())
            record.end(step, group, optimizer, scaler.state_dict())
            if job.place().group != group:
                # The group broke within the step, and another member had taken it.
                open(f"{folder}/{step}.taken_over", "w", encoding="ascii").close()
            if arguments.distributed:
                check(told, group)
            if (step + 1) % CHECKPOINT_STEPS == 0:
                adaptdl.checkpoint.request_checkpoint()
        done = epoch + 1
        if arguments.distributed:
            check_between_epochs(done)
        if not epochs and told_to_finish(folder):
            break
    if arguments.scaled:
        state, expected = scaler.state_dict(), state_after(job.place().optimizer_steps)
        assert (state["scale"], state["_growth_tracker"]) == expected, f"{state}, not {expected}"
    write_weights(folder, done, plain.parameters())


if __name__ == "__main__":
    main()
