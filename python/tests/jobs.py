"""What test_replicas.py and others run in processes of their own: jobs.py FUNCTION ARGUMENT..."""

import atexit
import copy
import hashlib
import logging
import os
import signal
import socket
import sys
import threading

import torch
import torch.distributed as dist
import torch.nn.functional as F
from support import Text, request_stop
from torch import nn
from torch.utils.data import IterableDataset, TensorDataset

import adaptdl
import adaptdl.checkpoint
import adaptdl.collective
import adaptdl.env
import adaptdl.torch as adl
import scaler
from adaptdl import _job
from torch_collectives import check_distributed

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


class Shards(IterableDataset):
    """The samples, in shards of different lengths."""
    def __init__(self, dataset):
        self._dataset = dataset

    def shards(self):
        ends = [0, 1, 15, 15, 22, 30, SAMPLES]
        return [range(begin, end) for begin, end in zip(ends, ends[1:])]

    def read(self, shard):
        for index in shard:
            yield self._dataset[index]

    def __iter__(self):
        return iter(self._dataset)


def data_set(kind):
    return samples() if kind == "indices" else Shards(samples())


def streams(workers="0", local="0", drop_last="0"):
    """Trains on streams, and says what came out, beside what the plain loop gives with the same batches."""
    torch.manual_seed(1)
    dataset = samples()
    ours = network()
    plain = copy.deepcopy(ours)
    own, optimizer = (torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9) for model in (ours, plain))
    adl.init_process_group("gloo")
    loader = adl.AdaptiveDataLoader(Shards(dataset), batch_size=10, num_workers=int(workers),
                                    max_local_batch_size=int(local), shuffle=True, drop_last=bool(int(drop_last)))
    model = adl.AdaptiveDataParallel(ours, own)
    seen, sizes, lasts = [], [], []
    for _ in adl.remaining_epochs_until(2):
        share = []
        for indices, inputs, targets in loader:
            lasts.append(loader.is_last_batch())
            own.zero_grad()
            F.mse_loss(model(inputs), targets).backward()
            own.step()
            if not _job.job().place().stand_in:
                share += indices.tolist()
            if loader.is_accum_step():
                continue
            batch = sum(adaptdl.collective.gather(share), [])
            share = []
            seen += batch
            sizes.append(len(batch))
            _, inputs, targets = dataset[batch]
            optimizer.zero_grad()
            F.mse_loss(plain(inputs), targets).backward()
            optimizer.step()
    each = sorted(seen) == sorted([*range(SAMPLES)] * 2)
    difference = max((a - b).abs().max().item() for a, b in zip(ours.parameters(), plain.parameters()))
    if adaptdl.env.replica_rank() == 0:
        print(f"each twice: {each}, full: {set(sizes) == {10}}, as plain: {difference < 1e-9}, ends: {sum(lasts)}, "
              f"{lasts[-1]}", flush=True)


def texts(stop_after="1000", local="0"):
    """Reads a text, stops after some batches, and says which ones of a single process's the replicas have read."""
    words, columns, length = 103, 5, 4
    whole = torch.tensor([*range(words), -1, -1]).view(columns, -1).t()
    expected = [whole[begin:begin + length + 1].tolist() for begin in range(0, len(whole) - 1, length)]
    adl.init_process_group("gloo")
    loader = adl.AdaptiveBPTTIterator(Text(words), columns, length, max_local_batch_size=int(local))
    seen, share = [], {}
    try:
        for batch in loader:
            if len(seen) == int(stop_after):
                request_stop()
            assert len(batch) == batch.text.shape[1]
            if not _job.job().place().stand_in:
                for number, column in enumerate(batch.columns):
                    share[column] = [*batch.text[:, number].tolist(), batch.target[-1, number].item()]
                    assert share[column][1:] == batch.target[:, number].tolist()
            if loader.is_accum_step():
                continue
            read = {column: text for part in adaptdl.collective.gather(share) for column, text in part.items()}
            assert len(read) == columns
            seen.append(expected.index([list(row) for row in zip(*(read[column] for column in range(columns)))]))
            share = {}
    finally:
        if adaptdl.env.replica_rank() == 0:
            print("batches:", seen, flush=True)


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


def distributed():
    """Outside of loops."""
    adl.init_process_group("gloo")
    check_distributed()


def distributed_in_loop():
    """Between a loop's passes and its steps."""
    adl.init_process_group("gloo")
    ours = network()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
    model = adl.AdaptiveDataParallel(ours, optimizer)
    for number, (_, inputs, targets) in enumerate(adl.AdaptiveDataLoader(samples(), batch_size=20)):
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        if number == 1:
            check_distributed()
        optimizer.step()


def distributed_differently():
    """One replica calls something else."""
    adl.init_process_group("gloo")
    dist.all_reduce(torch.ones(2 + dist.get_rank()))


def distributed_in_backward():
    """Where gradients travel."""
    adl.init_process_group("gloo")
    ours = network()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
    model = adl.AdaptiveDataParallel(ours, optimizer)
    ours[0].weight.register_hook(lambda gradient: dist.all_reduce(gradient))
    for _, inputs, targets in adl.AdaptiveDataLoader(samples(), batch_size=10):
        F.mse_loss(model(inputs), targets).backward()


def distributed_new_group():
    """Of one of them alone."""
    adl.init_process_group("gloo")
    dist.barrier()
    for backend in (None, "gloo"):
        try:
            dist.new_group([0], backend=backend)
        except adaptdl.Error as error:
            said = f"Error: {error}"
    print(said, flush=True)


class Ranks(torch.utils.data.Dataset):
    """Where each sample was read."""
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([dist.get_rank(), dist.get_world_size()])


def distributed_in_workers():
    """Processes that read are asked who they are."""
    adl.init_process_group("gloo")
    found = set()
    for ranks in adl.AdaptiveDataLoader(Ranks(), batch_size=4, num_workers=1):
        found.update(map(tuple, ranks.tolist()))
    print("workers:", found == {(dist.get_rank(), dist.get_world_size())}, flush=True)


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


def kill_worker(data="indices"):
    """A process that reads the data is killed."""
    import multiprocessing
    loader = adl.AdaptiveDataLoader(data_set(data), batch_size=2, num_workers=1)
    for number, _ in enumerate(loader):
        if number == 1:
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)


def endless(workers="0", data="indices"):
    """Trains until it is stopped."""
    ours = network()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
    loader = adl.AdaptiveDataLoader(data_set(data), batch_size=10, num_workers=int(workers))
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


FORMAT = "%(levelname)s %(name)s %(rank)s: %(message)s"


def says_things(setup=""):
    """Asks for a checkpoint, and trains until it is stopped."""
    if setup:
        logging.basicConfig(level=logging.INFO, format=FORMAT)
    adaptdl.collective.initialize()
    adaptdl.checkpoint.request_checkpoint()
    endless()


def says_much(times):
    """More than is kept, while a handler waits for the program's end."""
    ends = threading.Event()

    class Slow(logging.StreamHandler):
        def emit(self, record):
            ends.wait()
            super().emit(record)

    logging.basicConfig(level=logging.INFO, format=FORMAT, handlers=[Slow()])
    adaptdl.collective.initialize()
    for _ in range(int(times)):
        adaptdl.checkpoint.request_checkpoint()
    atexit.register(ends.set)
    raise ValueError("of the program")


def idle():
    """Until a signal's handler raises something. pause() would sleep through a signal that comes just before it."""
    told, tells = socket.socketpair()
    tells.setblocking(False)
    signal.set_wakeup_fd(tells.fileno())
    while True:
        told.recv(1)


def handler():
    """A handler of the program's own is called too."""
    # Not print(), in whose midst it may run.
    signal.signal(signal.SIGTERM, lambda number, frame: os.write(1, b"handled\n"))
    endless()


def before_meeting():
    """Nothing has begun."""
    adl.init_process_group("gloo")
    print("trains", flush=True)
    idle()


def computes():
    """After a first Ctrl-C, Python is busy in a step that does not end."""
    ours = network()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.05)
    loader = adl.AdaptiveDataLoader(samples(), batch_size=10)
    adl.AdaptiveDataParallel(ours, optimizer)
    for _ in loader:
        print("trains", flush=True)
        idle()


if __name__ == "__main__":
    torch.set_num_threads(1)
    globals()[sys.argv[1]](*sys.argv[2:])
