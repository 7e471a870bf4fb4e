"""A script of Hugging Face's Trainer whose replicas change while it trains, until it is told to finish:

    transformers_in_place.py ENDS BATCH PLAIN EPOCHS
    transformers_in_place.py ENDS BATCH ELASTIC FOLDER [--workers WORKERS]

Without our line it trains so many epochs. WORKERS: processes that read the data. ENDS and FOLDER: see in_place.py."""

import sys

import torch
import transformers
from torch import nn

from in_place import Record, Samples, make_optimizer, make_scheduler, network, save_end

ENDS, BATCH, KIND = sys.argv[1], int(sys.argv[2]), sys.argv[3]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = network()
        self.record = None

    def forward(self, number, inputs, labels):
        if self.training and self.record is not None:
            self.record.begin(number.tolist())
        outputs = self.network(inputs)
        return {"loss": nn.functional.mse_loss(outputs, labels), "logits": outputs}


class Notes(transformers.TrainerCallback):
    """What the record says of each step; and ends the training."""

    def __init__(self, record) -> None:
        self.record = record

    def on_step_end(self, args, state, control, optimizer=None, **kwargs):
        self.record.end(getattr(optimizer, "optimizer", optimizer), state.global_step, state.epoch)

    def on_epoch_end(self, args, state, control, **kwargs):
        self.record.end_epoch(round(state.epoch) - 1)
        control.should_training_stop = control.should_training_stop or self.record.to_finish()


def main() -> None:
    torch.set_num_threads(1)
    make, model, callbacks, epochs, workers = transformers.Trainer, Model(), [], 10**6, 0
    if KIND == "ELASTIC":
        from adaptdl.transformers import Trainer as make
        folder, workers = sys.argv[4], int(sys.argv[6]) if sys.argv[5:] else 0
        model.record = Record(folder, ENDS)
        callbacks.append(Notes(model.record))
    else:
        epochs = int(sys.argv[4])
    optimizer = make_optimizer(model.parameters())
    trainer = make(model=model, train_dataset=Samples(), eval_dataset=Samples(), callbacks=callbacks,
                   optimizers=(optimizer, make_scheduler(optimizer)), args=transformers.TrainingArguments(
                       output_dir=f"{ENDS}/output", num_train_epochs=epochs, per_device_train_batch_size=BATCH, use_cpu=True,
                       save_strategy="epoch", save_total_limit=1, report_to=[], disable_tqdm=True, eval_strategy="epoch",
                       train_sampling_strategy="sequential", logging_steps=5, dataloader_num_workers=workers))
    trainer.train()
    # Rounded by the framework.
    done = round(trainer.state.epoch)
    if model.record is not None:
        model.record.finish(model, done)
    save_end(ENDS, model.network, optimizer, done, trainer.state.global_step)


if __name__ == "__main__":
    main()
