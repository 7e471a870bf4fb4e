"""A Lightning script: lightning_job.py FOLDER PLAIN|ELASTIC [STEP|EARLY]. Writes which samples it has read, and the parameters that it
ends with; asks to be stopped at that step, or stops early, after two epochs, by rank 1's decision."""

import os
import signal
import sys

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FOLDER, KIND = sys.argv[1:3]
EARLY = sys.argv[3:] == ["EARLY"]
STOP_AT = int(sys.argv[3]) if len(sys.argv) > 3 and not EARLY else -1
SAMPLES, BATCH, EPOCHS = 70, 8, 4


class Module(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        self.rates = []

    def training_step(self, batch, batch_idx):
        numbers, inputs, targets = batch
        with open(f"{FOLDER}/read-{os.getpid()}", "a", encoding="ascii") as file:
            file.writelines(f"{self.current_epoch} {number}\n" for number in numbers.tolist())
        if self.global_step == STOP_AT and self.trainer.is_global_zero:
            os.kill(os.getpid(), signal.SIGTERM)
        loss = nn.functional.mse_loss(self.network(inputs), targets)
        self.log("loss", loss, sync_dist=True)
        return loss

    def validation_step(self, batch, batch_idx):
        _, inputs, targets = batch
        self.log("error", nn.functional.mse_loss(self.network(inputs), targets), sync_dist=True)

    def on_train_epoch_end(self):
        decision = EARLY and self.current_epoch == 1 and self.trainer.global_rank == 1
        self.trainer.should_stop = self.trainer.strategy.reduce_boolean_decision(decision, all=False)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)}


def main() -> None:
    torch.set_num_threads(1)
    pl.seed_everything(1)
    inputs = torch.randn(SAMPLES, 3)
    data = TensorDataset(torch.arange(SAMPLES), inputs, inputs.sum(1, keepdim=True))
    strategy = "auto"
    if KIND == "ELASTIC":
        from adaptdl.lightning import AdaptDLStrategy
        strategy = AdaptDLStrategy()
    module = Module()
    trainer = pl.Trainer(max_epochs=EPOCHS, logger=False, default_root_dir=FOLDER, enable_progress_bar=False,
                         enable_model_summary=False, accelerator="cpu", strategy=strategy, log_every_n_steps=1, devices=1)
    trainer.fit(module, DataLoader(data, batch_size=BATCH), DataLoader(data, batch_size=35))
    rate = trainer.optimizers[0].param_groups[0]["lr"]
    torch.save({"state": module.state_dict(), "rate": rate, "steps": trainer.global_step, "epoch": trainer.current_epoch,
                "error": trainer.callback_metrics["error"].item()}, f"{FOLDER}/end-{os.getpid()}")


if __name__ == "__main__":
    main()
