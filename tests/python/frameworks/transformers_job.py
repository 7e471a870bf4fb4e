"""A script of Hugging Face's Trainer: transformers_job.py FOLDER PLAIN|ELASTIC [STEP|EARLY]. Writes which samples it has read, and the
parameters it ends with; asks to be stopped at that step, or stops early, after two epochs, by rank 1's decision."""

import os
import signal
import sys

import torch
import transformers
from torch import nn

FOLDER, KIND = sys.argv[1:3]
EARLY = sys.argv[3:] == ["EARLY"]
STOP_AT = int(sys.argv[3]) if len(sys.argv) > 3 and not EARLY else -1
SAMPLES, BATCH, EPOCHS = 70, 8, 4


class Data(torch.utils.data.Dataset):
    def __init__(self) -> None:
        self.inputs = torch.randn(SAMPLES, 3)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, number: int) -> dict:
        return {"number": number, "inputs": self.inputs[number], "labels": self.inputs[number].sum(0, keepdim=True)}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        self.place = None

    def forward(self, number, inputs, labels):
        if self.training:
            place = self.place()
            with open(f"{FOLDER}/read-{os.getpid()}", "a", encoding="ascii") as file:
                file.writelines(f"{int(place.epoch)} {index}\n" for index in number.tolist())
            if place.global_step == STOP_AT and place.is_world_process_zero:
                os.kill(os.getpid(), signal.SIGTERM)
        outputs = self.network(inputs)
        return {"loss": nn.functional.mse_loss(outputs, labels), "logits": outputs}


class Stop(transformers.TrainerCallback):
    def on_epoch_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.epoch == 2 and os.environ["ADAPTDL_REPLICA_RANK"] == "1"


def main() -> None:
    torch.set_num_threads(1)
    transformers.set_seed(1)
    make = transformers.Trainer
    if KIND == "ELASTIC":
        from adaptdl.transformers import Trainer as make
    model, data = Model(), Data()
    trainer = make(model=model, train_dataset=data, eval_dataset=data, args=transformers.TrainingArguments(
        output_dir=f"{FOLDER}/output", num_train_epochs=EPOCHS, per_device_train_batch_size=BATCH, learning_rate=0.01, use_cpu=True,
        save_strategy="no", report_to=[], disable_tqdm=True, eval_strategy="epoch", train_sampling_strategy="sequential",
        logging_steps=5), callbacks=[Stop()] if EARLY else [])
    model.place = lambda: trainer.state
    trainer.train()
    rate = trainer.lr_scheduler.get_last_lr()[0]
    torch.save({"state": model.state_dict(), "rate": rate, "steps": trainer.state.global_step, "epoch": EPOCHS,
                "error": trainer.evaluate()["eval_loss"]}, f"{FOLDER}/end-{os.getpid()}")


if __name__ == "__main__":
    main()
