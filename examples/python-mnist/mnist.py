#!/usr/bin/env python3
"""Learns handwritten digits with AdaptDL's Python package: an elastic job that knows nothing of our scheduler."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Subset

import adaptdl.env
import adaptdl.torch as adl
import digits


class Net(nn.Module):
    def __init__(self, channels=16, dropout=0):
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.linear = nn.Linear(2 * channels * 7 * 7, 10)
        self.dropout = dropout

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.linear(F.dropout(x.flatten(1), self.dropout, self.training))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder with MNIST's IDX files of test images; digits are drawn without it")
    parser.add_argument("--samples", type=int, default=10_000, help="digits to draw")
    parser.add_argument("--train", type=int, default=0, help="digits to train on; default: four fifths of them")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64, help="samples per step, over all replicas")
    parser.add_argument("--max-batch-size", type=int, default=256, help="what it may be raised to; 0 keeps it")
    parser.add_argument("--learning-rate", type=float, default=.02)
    parser.add_argument("--weight-decay", type=float, default=0)
    parser.add_argument("--channels", type=int, default=16, help="of the first convolution; the second one has twice as many")
    parser.add_argument("--dropout", type=float, default=0, help="part of the features that a step leaves out")
    parser.add_argument("--shift", type=int, default=0, help="pixels that a step's digits are moved by at most, at random")
    parser.add_argument("--validate", action="store_true", help="measure after each epoch with an eighth of the digits to train "
                        "on, and with those to test with at the end only: for a search")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def report(**metrics):
    """Shown with the job; AdaptDL's own package, which this runs with too, has no such function."""
    if hasattr(adaptdl, "report"):
        adaptdl.report(**metrics)


def shifted(images, most):
    """All of them by the same number of pixels, at random: what a program has not seen it can't learn by heart."""
    down, right = (torch.randint(-most, most + 1, (2,)) if most else torch.zeros(2, dtype=torch.long)).tolist()
    return torch.roll(images, (down, right), (2, 3))


def accuracy_of(model, loader):
    """As a part of 1, over all replicas."""
    counts = adl.Accumulator()
    model.eval()
    with torch.no_grad():
        for images, labels in loader:
            counts["right"] += (model(images).argmax(1) == labels).sum().item()
            counts["all"] += len(labels)
    model.train()
    with counts.synchronized():
        return counts["right"] / counts["all"]


def say(text):
    if adaptdl.env.replica_rank() == 0:
        print(text, flush=True)


def main():
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    train, test = digits.load(arguments.data, arguments.samples, arguments.seed, adaptdl.env.share_path(), arguments.train)
    measured = test
    if arguments.validate:
        cut = len(train) * 7 // 8
        train, measured = Subset(train, range(cut)), Subset(train, range(cut, len(train)))
    adl.init_process_group("gloo")

    loader = adl.AdaptiveDataLoader(train, batch_size=arguments.batch_size, shuffle=True, drop_last=True)
    if arguments.max_batch_size > 0:
        loader.autoscale_batch_size(arguments.max_batch_size, local_bsz_bounds=(16, 128), gradient_accumulation=True)
    measured_loader, test_loader = (adl.AdaptiveDataLoader(data, batch_size=500) for data in (measured, test))
    model = Net(arguments.channels, arguments.dropout)
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.learning_rate, momentum=.9, weight_decay=arguments.weight_decay)
    model = adl.AdaptiveDataParallel(model, optimizer)

    first = True
    for epoch in adl.remaining_epochs_until(arguments.epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(shifted(images, arguments.shift)), labels)
            loss.backward()
            optimizer.step()
            report(loss=loss.item())
            if first:
                say(f"first step of start {adaptdl.env.num_restarts()} with {adaptdl.env.num_replicas()} replicas")
            first = False
        accuracy = accuracy_of(model, measured_loader)
        report(accuracy=accuracy)
        what = "validation accuracy" if arguments.validate else "test accuracy"
        say(f"epoch {epoch}: {what}: {100 * accuracy:.2f} %")
        if arguments.validate and epoch == arguments.epochs - 1:
            accuracy = accuracy_of(model, test_loader)
            report(test_accuracy=accuracy)
            say(f"test accuracy: {100 * accuracy:.2f} %")


if __name__ == "__main__":
    main()
