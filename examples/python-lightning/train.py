#!/usr/bin/env python3
"""A small network learns which side of a spiral a point is on: trained with PyTorch Lightning on generated data.

But for the marked line this is a plain script.
"""

import argparse
import math
import os

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from adaptdl.lightning import AdaptDLStrategy


def spirals(points: int, seed: int) -> TensorDataset:
    """Points on two spirals, with noise."""
    random = torch.Generator().manual_seed(seed)
    turn = torch.rand(points, generator=random) * 3 * math.pi
    side = torch.arange(points) % 2
    angle = turn + side * math.pi
    place = torch.stack([turn * angle.cos(), turn * angle.sin()], 1) / 10
    return TensorDataset(place + torch.randn(points, 2, generator=random) * 0.02, side)


class Sides(pl.LightningModule):
    """A classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))

    def training_step(self, batch: list, batch_idx: int) -> torch.Tensor:
        """The batch's loss."""
        points, sides = batch
        return nn.functional.cross_entropy(self.network(points), sides)

    def validation_step(self, batch: list, batch_idx: int) -> None:
        """Logs the part that is right."""
        points, sides = batch
        self.log("accuracy", (self.network(points).argmax(1) == sides).float().mean())

    def configure_optimizers(self) -> dict:
        """Adam, slower at each epoch."""
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)}


def main() -> None:
    """Trains, and says how well it tells the sides apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    arguments = parser.parse_args()
    pl.seed_everything(1)
    trainer = pl.Trainer(
        max_epochs=arguments.epochs, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu",
        strategy=AdaptDLStrategy(),  # this makes it elastic
    )
    model = Sides()
    trainer.fit(model, DataLoader(spirals(1024, 1), batch_size=32, shuffle=True), DataLoader(spirals(256, 2), batch_size=64))
    if trainer.is_global_zero:
        print(f"accuracy {trainer.callback_metrics['accuracy']:.3f} after {trainer.global_step} steps")
        torch.save(model.state_dict(), os.path.join(os.environ.get("ADAPTDL_SHARE_PATH", "."), "sides.pt"))


if __name__ == "__main__":
    main()
