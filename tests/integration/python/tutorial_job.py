#!/usr/bin/env python3
"""Learns handwritten digits with every call that AdaptDL's tutorial makes, where it makes them: loaders, one of them of test
images, before the group; drop_last, a batch size that may change, Adadelta, StepLR, epochs, and sums over all replicas."""

import argparse
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

import adaptdl.env
import adaptdl.torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples/python-mnist"))
import digits  # noqa: E402


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
                                    nn.Dropout2d(0.25), nn.Flatten(), nn.Linear(16 * 12 * 12, 64), nn.ReLU(),
                                    nn.Dropout(0.5), nn.Linear(64, 10), nn.LogSoftmax(dim=1))

    def forward(self, x):
        return self.layers(x)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with MNIST's IDX files of test images")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--max-batch-size", type=int, default=1028, help="0: it stays")
    parser.add_argument("--learning-rate", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def train(model, loader, optimizer):
    model.train()
    for data, target in loader:
        optimizer.zero_grad()
        F.nll_loss(model(data), target).backward()
        optimizer.step()


def test(model, loader, epoch):
    model.eval()
    stats = adaptdl.torch.Accumulator()
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            stats["loss"] += F.nll_loss(output, target, reduction="sum").item()
            stats["correct"] += output.argmax(dim=1).eq(target).sum().item()
    with stats.synchronized():
        if adaptdl.env.replica_rank() == 0:
            size = len(loader.dataset)
            print(f"epoch {epoch}: test loss: {stats['loss'] / size:.4f}, "
                  f"test accuracy: {100 * stats['correct'] / size:.2f} %", flush=True)


def main():
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    train_set, test_set = digits.load(arguments.data, 0, 0, None)
    train_loader = adaptdl.torch.AdaptiveDataLoader(train_set, drop_last=True, shuffle=True,
                                                    batch_size=arguments.batch_size)
    test_loader = adaptdl.torch.AdaptiveDataLoader(test_set, batch_size=arguments.batch_size)
    if arguments.max_batch_size:
        train_loader.autoscale_batch_size(arguments.max_batch_size, local_bsz_bounds=(32, 128))

    model = Net()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=arguments.learning_rate)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=arguments.gamma)
    adaptdl.torch.init_process_group("gloo")
    model = adaptdl.torch.AdaptiveDataParallel(model, optimizer, scheduler)

    for epoch in adaptdl.torch.remaining_epochs_until(arguments.epochs):
        train(model, train_loader, optimizer)
        test(model, test_loader, epoch)
        scheduler.step()


if __name__ == "__main__":
    main()
