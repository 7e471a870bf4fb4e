"""What test_replicas.py and others run in processes of their own: jobs.py FUNCTION ARGUMENT..."""

import hashlib
import os
import signal
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

import adaptdl.collective
import adaptdl.env
import adaptdl.torch as adl
import scaler
from adaptdl import _job

SAMPLES = 37


def samples():
    random = torch.Generator().manual_seed(3)
    inputs = torch.randn(SAMPLES, 4, generator=random, dtype=torch.double)
    return TensorDataset(torch.arange(SAMPLES), inputs, inputs.sum(1, keepdim=True))


def network():
    """Without a BatchNorm: a mean over a share is not that over the batch."""
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()


def digest(model):
    return hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())).hexdigest()


def train(workers="0", local="0", epochs="2", optimizer_name="SGD", device="cpu"):
    """Trains on unequal shares, and says what came out, beside what the plain loop gives."""
    torch.manual_seed(1)
    plain = network().to(device)
    make = {
        "SGD": lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        "Adam": lambda model: torch.optim.Adam(model.parameters(), lr=0.01)
    }[optimizer_name]
    optimizer = make(plain)
    dataset = samples()
    torch.manual_seed(os.getpid())
    ours = network().to(device)
    own = make(ours)
    # What rank 0 begins with is what all do.
    if adaptdl.env.replica_rank() == 0:
        ours.load_state_dict(plain.state_dict())
    adl.init_process_group("gloo" if device == "cpu" else "")
    loader = adl.AdaptiveDataLoader(dataset,
                                    batch_size=10,
                                    num_workers=int(workers),
                                    max_local_batch_size=int(local))
    model = adl.AdaptiveDataParallel(ours, own)
    seen = adl.Accumulator()
    for _ in adl.remaining_epochs_until(int(epochs)):
        for indices, inputs, targets in loader:
            own.zero_grad()
            F.mse_loss(model(inputs.to(device)), targets.to(device)).backward()
            own.step()
            for index in indices.tolist():
                seen[index] += 1
        for _, inputs, targets in torch.utils.data.DataLoader(dataset, batch_size=10):
            optimizer.zero_grad()
            F.mse_loss(plain(inputs.to(device)), targets.to(device)).backward()
            optimizer.step()
    with seen.synchronized():
        once = sorted(seen.items()) == [(index, int(epochs)) for index in range(SAMPLES)]
    same = len(set(adaptdl.collective.gather(digest(ours)))) == 1
    difference = max((a - b).abs().max().item() for a, b in zip(ours.parameters(), plain.parameters()))
    if adaptdl.env.replica_rank() == 0:
        print(f"once: {once}, alike: {same}, as plain: {difference < 1e-9}", flush=True)


def collectives():
    """Objects of all kinds."""
    adl.init_process_group("gloo")
    rank = adaptdl.env.replica_rank()
    total = adaptdl.collective.allreduce(rank + 1)
    union = adaptdl.collective.allreduce({rank}, lambda one, other: one | other)
    later = adaptdl.collective.allreduce_async([rank])
    first = adaptdl.collective.broadcast({"rank": rank})
    print(total, sorted(union), later.result(), first, flush=True)


def left_out():
    """A step that the program leaves out on all replicas, as a scaler of the loss does."""
    torch.manual_seed(1)
    ours = network()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
    loader = adl.AdaptiveDataLoader(samples(), batch_size=10)
    model = adl.AdaptiveDataParallel(ours, optimizer)
    changes = []
    for number, (_, inputs, targets) in enumerate(loader):
        before = digest(ours)
        optimizer.zero_grad()
        F.mse_loss(model(inputs), targets).backward()
        if number != 1:
            optimizer.step()
        changes.append(digest(ours) != before)
    same = len(set(adaptdl.collective.gather(digest(ours)))) == 1
    if adaptdl.env.replica_rank() == 0:
        print(changes, same, _job.job().place().optimizer_steps, flush=True)


def scaled():
    """With a scaler of the loss, where now and then one replica overflows."""
    torch.manual_seed(1)
    ours = network()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
    loss_scaler = scaler.make_scaler()
    loader = adl.AdaptiveDataLoader(samples(), batch_size=10)
    model = adl.AdaptiveDataParallel(ours, optimizer, mp_scaler=loss_scaler)
    step = 0
    for _ in adl.remaining_epochs_until(10):
        for _, inputs, targets in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(inputs), targets)
            if scaler.overflows(step) and adaptdl.env.replica_rank() == 1:
                loss = loss * float("inf")
            loss_scaler.scale(loss).backward()
            loss_scaler.step(optimizer)
            loss_scaler.update()
            step += 1
    state = loss_scaler.state_dict()
    alike = len(set(adaptdl.collective.gather((digest(ours), str(state))))) == 1
    alone = (state["scale"], state["_growth_tracker"]) == scaler.state_after(step)
    print(f"alike: {alike}, as alone: {alone}, overflowed: {any(map(scaler.overflows, range(step)))}", flush=True)


def without_backward():
    """A replica that computes nothing in a step, with buffers and with a parameter that nobody uses."""
    torch.manual_seed(1)
    ours = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)).double()
    ours.register_parameter("unused", nn.Parameter(torch.zeros(2, dtype=torch.double)))
    ours.register_buffer("turned", torch.arange(6.0).reshape(2, 3).t())
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
    loader = adl.AdaptiveDataLoader(samples(), batch_size=10)
    model = adl.AdaptiveDataParallel(ours, optimizer)
    for number, (_, inputs, targets) in enumerate(loader):
        optimizer.zero_grad(set_to_none=True)
        if number % 2 == 0 or adaptdl.env.replica_rank() != 0:
            F.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    same = len(set(adaptdl.collective.gather(digest(ours)))) == 1
    buffers = hashlib.sha256(b"".join(
        b.contiguous().numpy().tobytes() for b in ours.buffers() if b.is_floating_point())).hexdigest()
    same_buffers = len(set(adaptdl.collective.gather(buffers))) == 1
    if adaptdl.env.replica_rank() == 0:
        print(same,
              same_buffers,
              ours.unused.grad is None,
              ours.turned[2].tolist(),
              _job.job().place().optimizer_steps,
              flush=True)


def misuse(what):
    """Ways to use the package wrongly."""
    ours = network()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
    loader = adl.AdaptiveDataLoader(samples(), batch_size=10)
    model = adl.AdaptiveDataParallel(ours, optimizer)
    for number, (_, inputs, targets) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        if what == "raise" and number == 1 and adaptdl.env.replica_rank() == 1:
            raise ValueError("of the program")
        loss.backward()
        if what == "twice":
            F.mse_loss(model(inputs), targets).backward()
        optimizer.step()


def kill_worker():
    """A process that reads the data is killed."""
    import multiprocessing
    loader = adl.AdaptiveDataLoader(samples(), batch_size=2, num_workers=1)
    for number, _ in enumerate(loader):
        if number == 1:
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)


def endless(workers="0"):
    """Trains until it is stopped."""
    ours = network()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
    loader = adl.AdaptiveDataLoader(samples(), batch_size=10, num_workers=int(workers))
    model = adl.AdaptiveDataParallel(ours, optimizer)
    steps = 0
    try:
        for _ in adl.remaining_epochs_until(10**9):
            for _, inputs, targets in loader:
                optimizer.zero_grad()
                F.mse_loss(model(inputs), targets).backward()
                optimizer.step()
                steps += 1
                if steps == 5:
                    print("trains", flush=True)
    finally:
        print("ends", flush=True)


def handler():
    """A handler of the program's own is called too."""
    signal.signal(signal.SIGTERM, lambda number, frame: print("handled", flush=True))
    endless()


def before_meeting():
    """Nothing has begun."""
    adl.init_process_group("gloo")
    print("trains", flush=True)
    signal.pause()


def computes():
    """After a first Ctrl-C, Python is busy in a step that does not end."""
    ours = network()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
    loader = adl.AdaptiveDataLoader(samples(), batch_size=10)
    adl.AdaptiveDataParallel(ours, optimizer)
    for _ in loader:
        print("trains", flush=True)
        while True:
            signal.pause()


if __name__ == "__main__":
    torch.set_num_threads(1)
    globals()[sys.argv[1]](*sys.argv[2:])
