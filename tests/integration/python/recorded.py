#!/usr/bin/env python3
"""Runs a program that trains with adaptdl.torch as it is, and notes what it does (record.py).

    recorded.py FOLDER PROGRAM [ARGUMENTS...]

Where there is a file "<folder>/epochs", steps of later epochs than it says take long, so that something else can be done to
the job before it ends.
"""

import os
import pathlib
import runpy
import sys
import time

import torch

import adaptdl.torch as adl
from adaptdl import _job
from record import Record, write_weights

STEP_TIME = 0.1


class RecordedLoader(adl.AdaptiveDataLoader):
    """Notes each step of loops that train."""
    folder = pathlib.Path()
    record = None

    def __iter__(self):
        for data in super().__iter__():
            if not torch.is_grad_enabled():
                yield data
                continue
            job = _job.job()
            place = job.place()
            step, group = place.optimizer_steps, place.group
            self.record.begin(step, group, self._batch.indices[:self._batch.weight])
            self._take_time()
            yield data
            if job.place().optimizer_steps == step + 1:
                self.record.end(step, group, job.models[0]._optimizer)

    def _take_time(self):
        try:
            epochs = int((self.folder / "epochs").read_text())
        except FileNotFoundError:
            return
        if adl.current_epoch() >= epochs:
            time.sleep(STEP_TIME)


def main():
    folder, program = sys.argv[1:3]
    torch.set_num_threads(1)
    RecordedLoader.folder, RecordedLoader.record = pathlib.Path(folder), Record(folder)
    adl.AdaptiveDataLoader = RecordedLoader
    sys.path.insert(0, os.path.dirname(program))
    sys.argv[:] = sys.argv[2:]
    runpy.run_path(program, run_name="__main__")
    write_weights(folder, adl.finished_epochs(), _job.job().models[0]._tensors.parameters)


if __name__ == "__main__":
    main()
