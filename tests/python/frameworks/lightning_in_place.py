"""A Lightning script whose replicas change while it trains, until it is told to finish:

    lightning_in_place.py ENDS BATCH PLAIN EPOCHS
    lightning_in_place.py ENDS BATCH ELASTIC FOLDER [--workers WORKERS]

Without our line it trains so many epochs. WORKERS: processes that read the data. ENDS and FOLDER: see in_place.py."""

import sys

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader

from in_place import Record, Samples, make_optimizer, make_scheduler, network, save_end

ENDS, BATCH, KIND = sys.argv[1], int(sys.argv[2]), sys.argv[3]


class Module(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = network()
        self.record = None

    def error(self, batch):
        return nn.functional.mse_loss(self.network(batch["inputs"]), batch["labels"])

    def training_step(self, batch, batch_idx):
        if self.record is not None:
            self.record.begin(batch["number"].tolist())
        loss = self.error(batch)
        self.log("loss", loss, sync_dist=True)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if self.record is not None:
            self.record.end(self.trainer.optimizers[0], self.global_step, self.current_epoch, batch_idx)

    def validation_step(self, batch, batch_idx):
        self.log("error", self.error(batch), sync_dist=True)

    def on_train_epoch_end(self):
        if self.record is not None:
            self.record.end_epoch(self.current_epoch)
            self.trainer.should_stop = self.trainer.strategy.reduce_boolean_decision(self.record.to_finish(), all=False)

    def configure_optimizers(self):
        optimizer = make_optimizer(self.parameters())
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": make_scheduler(optimizer), "interval": "step"}}


def main() -> None:
    torch.set_num_threads(1)
    module, strategy, epochs, workers = Module(), "auto", 2**31 - 1, 0
    if KIND == "ELASTIC":
        from adaptdl.lightning import AdaptDLStrategy
        folder, workers = sys.argv[4], int(sys.argv[6]) if sys.argv[5:] else 0
        module.record, strategy = Record(folder, ENDS), AdaptDLStrategy()
    else:
        epochs = int(sys.argv[4])
    trainer = pl.Trainer(max_epochs=epochs, logger=False, default_root_dir=ENDS, enable_progress_bar=False,
                         enable_model_summary=False, accelerator="cpu", strategy=strategy, log_every_n_steps=1, devices=1)
    trainer.fit(module, DataLoader(Samples(), batch_size=BATCH, num_workers=workers), DataLoader(Samples(), batch_size=35))
    if module.record is not None:
        module.record.finish(module, trainer.current_epoch)
    save_end(ENDS, module.network, trainer.optimizers[0], trainer.current_epoch, trainer.global_step)


if __name__ == "__main__":
    main()
