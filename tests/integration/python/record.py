"""What jobs under test note of their training, as tests/integration/chaos/chaos_job.cc has it: one file
"<folder>/<pid>.steps" per process, and "<folder>/<pid>.weights" at the end."""

import hashlib
import os

import torch


class Record:
    """The steps. Whole lines, each with one write: a killed process leaves no half of one."""
    def __init__(self, folder):
        self._file = os.open(f"{folder}/{os.getpid()}.steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def begin(self, step, group, samples):
        """This replica's share of a micro-batch, which it starts to compute."""
        self._write("begin", step, group, *samples)

    def end(self, step, group, optimizer, more=None):
        """The step was taken. `more`: what else is to be alike."""
        self._write("end", step, group, _checksum(optimizer, more))

    def _write(self, *words):
        os.write(self._file, (" ".join(str(word) for word in words) + "\n").encode())


def _checksum(optimizer, more):
    """Of all bits of the parameters, of what the optimiser keeps of them, and of what steps go by."""
    rates = [group["lr"] for group in optimizer.param_groups]
    digest = hashlib.sha256(repr((rates, more)).encode())
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            for tensor in [parameter, *(state[name] for name in sorted(state))]:
                if torch.is_tensor(tensor):
                    digest.update(tensor.detach().numpy().tobytes())
    return int.from_bytes(digest.digest()[:7], "big")


def write_weights(folder, epochs, parameters):
    """The epochs that were trained, and all parameters."""
    with open(f"{folder}/{os.getpid()}.weights", "w", encoding="ascii") as file:
        print(epochs,
              *(value.hex() for p in parameters for value in p.detach().flatten().tolist()),
              sep="\n",
              file=file)
