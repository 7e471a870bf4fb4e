#!/usr/bin/env python3
"""The training of tutorial_job.py or of examples/python-mnist in a plain loop of PyTorch: the same network, optimiser and
schedule, on the same samples in each step; or, with --own-order, in an order of its own.

    plain_digits.py tutorial|mnist --data FOLDER [--epochs N] [--seed N] [--own-order]
"""

import argparse
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, RandomSampler

import adaptdl.torch as adl

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples/python-mnist"))
import digits  # noqa: E402
import mnist  # noqa: E402
import tutorial_job  # noqa: E402

BATCH = 64


def tutorial():
    model = tutorial_job.Net()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    return model, F.nll_loss, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)


def example():
    model = mnist.Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    return model, F.cross_entropy, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0)


PROGRAMS = {"tutorial": tutorial, "mnist": example}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--own-order", action="store_true")
    return parser.parse_args()


def order(dataset, own_order, seed):
    """One for all epochs, and what is to be told of each epoch."""
    if own_order:
        return RandomSampler(dataset, generator=torch.Generator().manual_seed(seed)), lambda epoch: None
    sampler = adl.ElasticSampler(dataset)
    return sampler, sampler.set_epoch


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        right = sum((model(data).argmax(1) == target).sum().item() for data, target in loader)
    model.train()
    return 100 * right / len(loader.dataset)


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    train, test = digits.load(arguments.data, 0, 0, None)
    model, loss, optimizer, scheduler = PROGRAMS[arguments.program]()
    sampler, set_epoch = order(train, arguments.own_order, arguments.seed)
    # What loaders draw for their workers is not to be missed by the model.
    loader = DataLoader(train, batch_size=BATCH, sampler=sampler, drop_last=True, generator=torch.Generator())
    test_loader = DataLoader(test, batch_size=500, generator=torch.Generator())
    for epoch in range(arguments.epochs):
        set_epoch(epoch)
        for data, target in loader:
            optimizer.zero_grad()
            loss(model(data), target).backward()
            optimizer.step()
        scheduler.step()
        print(f"epoch {epoch}: test accuracy: {accuracy(model, test_loader):.2f} %", flush=True)


if __name__ == "__main__":
    main()
