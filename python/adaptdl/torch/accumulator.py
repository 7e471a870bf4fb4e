"""Sums over all replicas: `adaptdl.torch.Accumulator`, which needs no PyTorch."""

from adaptdl._accumulator import Accumulator

__all__ = ["Accumulator"]
