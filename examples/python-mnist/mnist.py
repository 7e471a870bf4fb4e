#!/usr/bin/env python3
"""Learns handwritten digits with AdaptDL's Python package: an elastic job that knows nothing of our scheduler."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

import adaptdl.env
import adaptdl.torch as adl
import digits


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.linear = nn.Linear(32 * 7 * 7, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.linear(x.flatten(1))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder with MNIST's IDX files of test images; digits are drawn without it")
    parser.add_argument("--samples", type=int, default=10_000, help="digits to draw")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64, help="samples per step, over all replicas")
    parser.add_argument("--max-batch-size", type=int, default=256, help="what it may be raised to; 0 keeps it")
    parser.add_argument("--learning-rate", type=float, default=.02)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def report(**metrics):
    """Shown with the job; AdaptDL's own package, which this runs with too, has no such function."""
    if hasattr(adaptdl, "report"):
        adaptdl.report(**metrics)


def evaluate(model, loader, epoch):
    counts = adl.Accumulator()
    model.eval()
    with torch.no_grad():
        for images, labels in loader:
            counts["right"] += (model(images).argmax(1) == labels).sum().item()
            counts["all"] += len(labels)
    model.train()
    with counts.synchronized():
        accuracy = 100 * counts["right"] / counts["all"]
    report(accuracy=accuracy / 100)
    if adaptdl.env.replica_rank() == 0:
        print(f"epoch {epoch}: test accuracy: {accuracy:.2f} %", flush=True)


def main():
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    train, test = digits.load(arguments.data, arguments.samples, arguments.seed, adaptdl.env.share_path())
    adl.init_process_group("gloo")

    loader = adl.AdaptiveDataLoader(train, batch_size=arguments.batch_size, shuffle=True, drop_last=True)
    if arguments.max_batch_size > 0:
        loader.autoscale_batch_size(arguments.max_batch_size, local_bsz_bounds=(16, 128), gradient_accumulation=True)
    test_loader = adl.AdaptiveDataLoader(test, batch_size=500)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.learning_rate, momentum=.9)
    model = adl.AdaptiveDataParallel(model, optimizer)

    first = True
    for epoch in adl.remaining_epochs_until(arguments.epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            report(loss=loss.item())
            if first and adaptdl.env.replica_rank() == 0:
                print(f"first step of start {adaptdl.env.num_restarts()} with {adaptdl.env.num_replicas()} replicas",
                      flush=True)
            first = False
        evaluate(model, test_loader, epoch)


if __name__ == "__main__":
    main()
