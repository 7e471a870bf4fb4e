"""A model and its data, and the loop of a program that knows nothing of the package."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

SAMPLES = 40


def samples():
    random = torch.Generator().manual_seed(3)
    inputs = torch.randn(SAMPLES, 4, generator=random)
    return TensorDataset(torch.arange(SAMPLES), inputs, inputs.sum(1, keepdim=True))


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.01)


def take_steps(model, optimizer, batches, clip=None, zero=lambda optimizer: optimizer.zero_grad()):
    for _, inputs, targets in batches:
        zero(optimizer)
        F.mse_loss(model(inputs), targets).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
