#!/usr/bin/env python3
"""A small GPT-2 learns to count: trained from scratch with Hugging Face's Trainer on generated data.

But for the marked line this is a plain script.
"""

import argparse
import os

import torch
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments

from adaptdl.transformers import Trainer  # the elastic one, in place of transformers' own

WORDS = 16
LENGTH = 12


class Counting(torch.utils.data.Dataset):
    """Sequences that go up by a step of their own, modulo WORDS."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> dict:
        words = torch.tensor([(index + i * (1 + index // WORDS % 3)) % WORDS for i in range(LENGTH)])
        return {"input_ids": words, "labels": words}


def main() -> None:
    """Trains, evaluates, and says how well it counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--output", default=os.environ.get("ADAPTDL_SHARE_PATH", "counting"), help="folder of the model")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=2, bos_token_id=0,
                                       eos_token_id=0))
    trainer = Trainer(
        model=model, train_dataset=Counting(), eval_dataset=Counting(),
        args=TrainingArguments(
            output_dir=arguments.output, num_train_epochs=arguments.epochs, per_device_train_batch_size=16, learning_rate=3e-3,
            use_cpu=True, save_strategy="no", report_to=[], disable_tqdm=True))
    trainer.train()
    loss = trainer.evaluate()["eval_loss"]
    if trainer.is_world_process_zero():
        print(f"loss {loss:.3f} after {trainer.state.global_step} steps")
        trainer.save_model()


if __name__ == "__main__":
    main()
