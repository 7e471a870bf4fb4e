#!/usr/bin/env python3
"""The job of rescale_bench's part "python": trains the MNIST network of python_bench.py until it is
cancelled, and notes each step, as "group begin end" in nanoseconds of the monotonic clock, in one file
"<folder>/<pid>" per process.

    rescale_job.py FOLDER BATCH

On AdaptDL's own package as well, whose jobs tell nobody how far they are: "group N trains" in the job's log says that it has
begun.
"""

import os
import sys
import time

import torch
import torch.nn.functional as F

import adaptdl.torch as adl

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import python_bench  # noqa: E402


# By which the job's log tells that a group trains.
STEPS = 5


def make_place():
    """What gives the group that trains, and whether the step came to nothing."""
    try:
        from adaptdl import _job
    except ImportError:  # AdaptDL's, which has one group as long as it runs
        group = int(os.environ["ADAPTDL_GROUP"])
        return lambda: (group, False)
    job = _job.job()

    def place():
        now = job.place()
        return now.group, now.is_void

    return place


def main():
    folder, batch = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    adl.init_process_group("gloo")
    model, optimizer = python_bench.make(python_bench.Mnist)
    loader = adl.AdaptiveDataLoader(python_bench.data(8000), batch_size=batch, shuffle=True)
    model = adl.AdaptiveDataParallel(model, optimizer)
    place = make_place()
    told, steps = -1, 0
    with open(os.path.join(folder, str(os.getpid())), "w", encoding="ascii", buffering=1) as file:
        for _ in adl.remaining_epochs_until(2**31 - 1):
            for inputs, targets in loader:
                (group, _), begin = place(), time.monotonic_ns()
                optimizer.zero_grad()
                F.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
                if place()[1]:
                    continue
                print(group, begin, time.monotonic_ns(), file=file)
                steps = steps + 1 if group == told else 1
                told = group
                if steps == STEPS:
                    print(f"group {group} trains", flush=True)


if __name__ == "__main__":
    main()
