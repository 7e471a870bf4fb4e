#!/usr/bin/env python3
"""What Python's package costs a step: the same loop plain and elastic, with one replica, in turns in one
process; and with two replicas against DistributedDataParallel over Gloo.

    python_bench.py [--rounds N] [--seconds S]
    python_bench.py --two [--rounds N]           two replicas; needs `adaptdl run` on the PATH or beside the build's package

Of each pair of blocks, one of them plain, the ratio of their times is taken: the figure is the median over
all pairs, and what it scatters is the distance of the quartiles. One thread; wall time and, which others
on the machine disturb less, processor time.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SAMPLES = 20_000


class Mnist(nn.Module):
    """The network of examples/python-mnist."""
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.linear = nn.Linear(32 * 7 * 7, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.linear(x.flatten(1))


class Transformer(nn.Module):
    """An encoder of 8 layers: 100 tensors of parameters."""
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
        self.embed = nn.Linear(28, 64)
        self.encoder = nn.TransformerEncoder(layer, 8)
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        return self.out(self.encoder(self.embed(x.squeeze(1))).mean(1))


CASES = {
    "MNIST CNN, batch 8": (Mnist, 8), "MNIST CNN, batch 64": (Mnist, 64),
    "transformer, 100 tensors, batch 16": (Transformer, 16)
}


def make(kind):
    torch.manual_seed(1)
    model = kind()
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def data(samples=SAMPLES):
    random = torch.Generator().manual_seed(1)
    return TensorDataset(torch.randn(samples, 1, 28, 28, generator=random),
                         torch.randint(0, 10, (samples,), generator=random))


def steps(model, optimizer, loader):
    """Takes a step for each time that it is asked."""
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            yield


def timed(loop, count):
    start, start_cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        next(loop)
    return time.perf_counter() - start, time.process_time() - start_cpu


def compare(plain, elastic, rounds, seconds):
    """Median and quartiles' distance of elastic by plain, by the wall and by the processor; and the plain
    time of a step."""
    for loop in (plain, elastic):
        timed(loop, 20)
    count = max(int(seconds / (timed(plain, 20)[0] / 20)), 16)
    ratios, base = ([], []), []
    for number in range(rounds):
        # Each is first in turn: what comes later finds other caches.
        if number % 2:
            one, other = timed(plain, count), timed(elastic, count)
        else:
            other, one = timed(elastic, count), timed(plain, count)
        for of_kind, ours, theirs in zip(ratios, other, one):
            of_kind.append(ours / theirs)
        base.append(one[0] / count)
    spreads = [statistics.quantiles(of_kind, n=4) for of_kind in ratios]
    return [(statistics.median(of_kind), spread[2] - spread[0]) for of_kind, spread in zip(ratios, spreads)
           ], statistics.median(base)


def one_replica(rounds, seconds):
    print(f"one replica, torch {torch.__version__}, {rounds} pairs of blocks of {seconds} s:", flush=True)
    for name in CASES:
        # A process of its own: what one model costs is none of the next one's.
        subprocess.run([
            sys.executable,
            os.path.abspath(__file__), "--case", name, "--rounds",
            str(rounds), "--seconds",
            str(seconds)
        ],
                       check=True)


def case(name, rounds, seconds):
    """One of CASES, alone."""
    import adaptdl.torch as adl
    adl.init_process_group("gloo")
    kind, batch = CASES[name]
    dataset = data()
    plain_model, plain_optimizer = make(kind)
    plain = steps(plain_model, plain_optimizer, DataLoader(dataset, batch_size=batch, shuffle=True))
    model, optimizer = make(kind)
    loader = adl.AdaptiveDataLoader(dataset, batch_size=batch, shuffle=True)
    model = adl.AdaptiveDataParallel(model, optimizer)
    elastic = steps(model, optimizer, loader)
    ((wall, wall_spread), (cpu, cpu_spread)), base = compare(plain, elastic, rounds, seconds)
    elastic.close()
    print(
        f"  {name}: {base * 1e3:.2f} ms plain, overhead {100 * (wall - 1):+.1f} % (quartiles {100 * wall_spread:.1f} % apart), "
        f"in processor time {100 * (cpu - 1):+.1f} % ({100 * cpu_spread:.1f} %)",
        flush=True)


def replica(kind, rounds, seconds):
    """One of two replicas, by the package or by DistributedDataParallel: prints the time of a step."""
    model, optimizer = make(Mnist)
    dataset, batch = data(8000), 64
    if kind == "adaptdl":
        import adaptdl.torch as adl
        adl.init_process_group("gloo")
        loader = adl.AdaptiveDataLoader(dataset, batch_size=2 * batch, shuffle=True)
        model = adl.AdaptiveDataParallel(model, optimizer)
        rank = int(os.environ["ADAPTDL_REPLICA_RANK"])
    else:
        rank = int(os.environ["ADAPTDL_REPLICA_RANK"])
        torch.distributed.init_process_group("gloo",
                                             init_method="file://" + os.environ["BENCH_FILE"],
                                             world_size=2,
                                             rank=rank)
        sampler = torch.utils.data.distributed.DistributedSampler(dataset)
        loader = DataLoader(dataset, batch_size=batch, sampler=sampler)
        model = nn.parallel.DistributedDataParallel(model)
    loop = steps(model, optimizer, loader)
    timed(loop, 20)
    times = [timed(loop, 20)[0] / 20 for _ in range(rounds)]
    if rank == 0:
        print(statistics.median(times), flush=True)


def two_replicas(rounds):
    package = os.environ.get("PYTHONPATH", "").split(":")[0]
    command = os.path.join(os.path.dirname(package), "bin", "adaptdl") if package else "adaptdl"
    results = {"adaptdl": [], "ddp": []}
    for number in range(rounds):
        for kind in ("adaptdl", "ddp") if number % 2 else ("ddp", "adaptdl"):
            environment = dict(os.environ, BENCH_FILE=f"/tmp/python_bench.{os.getpid()}.{number}.{kind}")
            output = subprocess.run([
                command, "run", "-n", "2", "--", sys.executable,
                os.path.abspath(__file__), "--replica", kind
            ],
                                    env=environment,
                                    check=True,
                                    capture_output=True,
                                    text=True).stdout
            results[kind].append(float(output.split()[-1]))
            with contextlib.suppress(FileNotFoundError):
                os.remove(environment["BENCH_FILE"])
    ratios = [ours / theirs for ours, theirs in zip(results["adaptdl"], results["ddp"])]
    print(
        f"two replicas, MNIST CNN, 64 samples each, {rounds} pairs of runs: {statistics.median(results['ddp']) * 1e3:.2f} ms by "
        f"DistributedDataParallel over Gloo, {statistics.median(results['adaptdl']) * 1e3:.2f} ms by adaptdl, "
        f"{100 * (statistics.median(ratios) - 1):+.1f} % (from {100 * (min(ratios) - 1):+.1f} to {100 * (max(ratios) - 1):+.1f} %)",
        flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("--two", action="store_true")
    parser.add_argument("--case", choices=list(CASES))
    parser.add_argument("--replica", choices=["adaptdl", "ddp"])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.replica:
        replica(arguments.replica, 10, arguments.seconds)
    elif arguments.case:
        case(arguments.case, arguments.rounds or 40, arguments.seconds)
    elif arguments.two:
        two_replicas(arguments.rounds or 5)
    else:
        one_replica(arguments.rounds or 40, arguments.seconds)


if __name__ == "__main__":
    main()
