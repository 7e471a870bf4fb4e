#!/usr/bin/env python3
"""The job of rescale_bench's part "python": trains the MNIST network of python_bench.py until it is
cancelled, and notes each step, as "group begin end" in nanoseconds of the monotonic clock, in one file
"<folder>/<pid>" per process.

    rescale_job.py FOLDER BATCH
"""

import os
import sys
import time

import torch
import torch.nn.functional as F

import adaptdl.torch as adl
from adaptdl import _job

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import python_bench  # noqa: E402


def main():
    folder, batch = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    adl.init_process_group("gloo")
    model, optimizer = python_bench.make(python_bench.Mnist)
    loader = adl.AdaptiveDataLoader(python_bench.data(8000), batch_size=batch, shuffle=True)
    model = adl.AdaptiveDataParallel(model, optimizer)
    job = _job.job()
    with open(os.path.join(folder, str(os.getpid())), "w", encoding="ascii", buffering=1) as file:
        for _ in adl.remaining_epochs_until(2**31 - 1):
            for inputs, targets in loader:
                group, begin = job.place().group, time.monotonic_ns()
                optimizer.zero_grad()
                F.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
                if not job.place().is_void:
                    print(group, begin, time.monotonic_ns(), file=file)


if __name__ == "__main__":
    main()
