#!/usr/bin/env python3
"""What Python's package costs a step: the same loop plain and elastic, with one replica, in turns in one
process; and with two replicas against DistributedDataParallel over Gloo.

    python_bench.py [--rounds N] [--seconds S] [--report] [--adaptdl PYTHON]
    python_bench.py --two [--rounds N] [--adaptdl PYTHON]     two replicas

Of each pair of blocks, one of them plain, the ratio of their times is taken: the figure is the median over
all pairs, and what it scatters is the distance of the quartiles. One thread; wall time and, which others
on the machine disturb less, processor time.

--report: the elastic loop reports a number in each step.

PYTHON is an interpreter that has AdaptDL's own package, which is measured too: against the plain loop in a
process of its own, whose pairs of blocks take turns with ours, as both packages have one name.
"""

import argparse
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

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


class OneByOne(Dataset):
    """A data set as programs write them: our loader has no quicker way to read it than PyTorch's."""
    def __init__(self, dataset):
        self._dataset = dataset

    def __len__(self):
        return len(self._dataset)

    def __getitem__(self, index):
        return self._dataset[index]


# A TensorDataset, unless the name says otherwise.
CASES = {
    "MNIST CNN, batch 8": (Mnist, 8), "MNIST CNN, batch 64": (Mnist, 64),
    "MNIST CNN, batch 8, data set of its own": (Mnist, 8), "MNIST CNN, batch 64, data set of its own": (Mnist, 64),
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


def steps(model, optimizer, loader, report=None):
    """Takes a step for each time that it is asked."""
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
            if report is not None:
                report(loss=1.0)
            yield


def timed(loop, count):
    start, start_cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        next(loop)
    return time.perf_counter() - start, time.process_time() - start_cpu


def serve(name, reports):
    """The loops of one of CASES, by the package that this Python has. Takes "plain 20" or "elastic 20" from standard
    input for 20 steps of one, and answers with their times, by the wall and by the processor."""
    import adaptdl
    import adaptdl.torch as adl
    adl.init_process_group("gloo")
    kind, batch = CASES[name]
    dataset = OneByOne(data()) if "of its own" in name else data()
    plain_model, plain_optimizer = make(kind)
    plain = steps(plain_model, plain_optimizer, DataLoader(dataset, batch_size=batch, shuffle=True))
    model, optimizer = make(kind)
    loader = adl.AdaptiveDataLoader(dataset, batch_size=batch, shuffle=True)
    model = adl.AdaptiveDataParallel(model, optimizer)
    elastic = steps(model, optimizer, loader, adaptdl.report if reports else None)
    for line in sys.stdin:
        loop, count = line.split()
        print(*timed({"plain": plain, "elastic": elastic}[loop], int(count)), flush=True)
    elastic.close()


class Trainer:
    """A process of one of the packages, which takes steps when it is told."""
    def __init__(self, package, case, reports):
        command = [package.python, os.path.abspath(__file__), "--serve", case, *(["--report"] if reports else [])]
        self._process = subprocess.Popen(command, env=package.environment, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait()

    def timed(self, loop, count):
        """Seconds of so many steps, by the wall and by the processor."""
        print(loop, count, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"python_bench: a process has ended with {self._process.wait()}")
        return tuple(map(float, answer.split()))


class Package:
    """Ours, as this Python finds it; or AdaptDL's, as `python` does, which is not to find ours."""
    def __init__(self, name, python=sys.executable, environment=os.environ):
        self.name, self.python, self.environment = name, python, environment


def packages(adaptdl):
    """Ours, and AdaptDL's if it is to be had."""
    there = [Package("adaptdl")]
    if adaptdl:
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        there.append(Package("AdaptDL's package", adaptdl, clean))
    return there


class Comparison:
    """Elastic by plain, in one process."""
    def __init__(self, trainer, seconds):
        self._trainer = trainer
        for loop in ("plain", "elastic"):
            trainer.timed(loop, 20)
        self._count = max(int(seconds / (trainer.timed("plain", 20)[0] / 20)), 16)
        # By the wall and by the processor.
        self._ratios = [], []
        self._base = []

    def measure(self, plain_first):
        """A pair of blocks."""
        order = ("plain", "elastic") if plain_first else ("elastic", "plain")
        times = {loop: self._trainer.timed(loop, self._count) for loop in order}
        for of_kind, ours, theirs in zip(self._ratios, times["elastic"], times["plain"]):
            of_kind.append(ours / theirs)
        self._base.append(times["plain"][0] / self._count)

    def __str__(self):
        (wall, wall_spread), (cpu, cpu_spread) = map(self._of_all, self._ratios)
        return (f"{statistics.median(self._base) * 1e3:.2f} ms plain, overhead {100 * (wall - 1):+.1f} % "
                f"(quartiles {100 * wall_spread:.1f} % apart), in processor time {100 * (cpu - 1):+.1f} % "
                f"({100 * cpu_spread:.1f} %)")

    @staticmethod
    def _of_all(ratios):
        """Median, and the quartiles' distance."""
        quartiles = statistics.quantiles(ratios, n=4)
        return statistics.median(ratios), quartiles[2] - quartiles[0]


def one_replica(measured, rounds, seconds, reports):
    print(f"one replica, torch {torch.__version__}, {rounds} pairs of blocks of {seconds} s:", flush=True)
    for case in CASES:
        with contextlib.ExitStack() as stack:
            # Processes of their own: what one model costs is none of the next one's.
            comparisons = [
                Comparison(stack.enter_context(Trainer(package, case, reports)), seconds) for package in measured
            ]
            for number in range(rounds):
                # Each is first in turn: what comes later finds other caches.
                for comparison in comparisons if number // 2 % 2 else reversed(comparisons):
                    comparison.measure(plain_first=bool(number % 2))
        for package, comparison in zip(measured, comparisons):
            print(f"  {case}, {package.name}: {comparison}", flush=True)


def replica(kind, rounds):
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


def run_two(package, kind):
    """The time of a step of two replicas."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        group = dict(package.environment, ADAPTDL_NUM_REPLICAS="2", ADAPTDL_NUM_NODES="1",
                     ADAPTDL_MASTER_ADDR="127.0.0.1", ADAPTDL_MASTER_PORT=str(port),
                     BENCH_FILE=os.path.join(folder, "store"))
        replicas = [subprocess.Popen([package.python, os.path.abspath(__file__), "--replica", kind],
                                     env=dict(group, ADAPTDL_REPLICA_RANK=str(rank)),
                                     stdout=subprocess.PIPE, text=True) for rank in range(2)]
        outputs = [process.communicate()[0] for process in replicas]
    codes = [process.returncode for process in replicas]
    if any(codes):
        sys.exit(f"python_bench: {package.name}: replicas have ended with {codes}")
    return float(outputs[0].split()[-1])


def two_replicas(measured, rounds):
    ddp = Package("DistributedDataParallel over Gloo")
    runs = [(ddp, "ddp"), *((package, "adaptdl") for package in measured)]
    times = {package.name: [] for package, _ in runs}
    for number in range(rounds):
        # Each is first in turn.
        for place in range(len(runs)):
            package, kind = runs[(number + place) % len(runs)]
            times[package.name].append(run_two(package, kind))
    print(f"two replicas, MNIST CNN, 64 samples each, {rounds} runs of each in turns:", flush=True)
    for name, values in times.items():
        ratios = [ours / theirs for ours, theirs in zip(values, times[ddp.name])]
        middle, least, most = (100 * (ratio - 1) for ratio in (statistics.median(ratios), min(ratios), max(ratios)))
        print(f"  {name}: {statistics.median(values) * 1e3:.2f} ms, {middle:+.1f} % (from {least:+.1f} to {most:+.1f} %)",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("--two", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--adaptdl", metavar="PYTHON")
    # What this program starts.
    parser.add_argument("--serve", choices=list(CASES), help=argparse.SUPPRESS)
    parser.add_argument("--replica", choices=["adaptdl", "ddp"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    measured = packages(arguments.adaptdl)
    if arguments.serve:
        serve(arguments.serve, arguments.report)
    elif arguments.replica:
        replica(arguments.replica, 10)
    elif arguments.two:
        two_replicas(measured, arguments.rounds or 5)
    else:
        one_replica(measured, arguments.rounds or 40, arguments.seconds, arguments.report)


if __name__ == "__main__":
    main()
