"""Hugging Face's Trainer on the replicas of a job, however many there are:

    from adaptdl.transformers import Trainer      # in place of: from transformers import Trainer

The rest of a script stays as it is. `per_device_train_batch_size` is the whole batch's size, over all replicas. Model, optimiser,
schedule and the place in the data are in the job's checkpoints, so that `resume_from_checkpoint` is not needed; replicas that
come in take part from the next step on. Evaluation runs whole on each replica; files are written by rank 0.

Needs the packages transformers and accelerate.
"""

from typing import Any, Optional, Tuple

from adaptdl import Error, _job, env

try:
    import transformers
    from transformers import TrainerCallback
except ImportError as missing:
    raise Error("adaptdl.transformers needs Hugging Face's packages: pip install 'transformers>=5.24' accelerate "
                f"({missing})") from missing

from adaptdl._frameworks import Epochs, any_of, elastic_loader
from adaptdl.torch import AdaptiveDataLoader, AdaptiveDataParallel

__all__ = ["Trainer"]

# More steps than any epoch has: the data say when it is over.
_ANY_NUMBER = 2 ** 62
# Parts of the trainer's loop that are replaced.
_PARTS = ("_init_training_state", "_prepare_for_training", "_run_epoch", "_maybe_log_save_evaluate", "_finalize_training")
if not all(hasattr(transformers.Trainer, part) for part in _PARTS):
    raise Error(f"adaptdl.transformers works with transformers 5.24, and not with {transformers.__version__}, whose loop is another "
                "one: pip install 'transformers>=5.24'")


class _Follow(TrainerCallback):
    """Keeps the trainer's counts what the job's are. The first to be called: the others go by them."""

    def __init__(self, trainer: "Trainer") -> None:
        self._trainer = trainer

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The replicas may have changed."""
        self._trainer._follow_job()
        state.is_world_process_zero = state.is_local_process_zero = env.replica_rank() == 0

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step that came to nothing, as a replica was lost, is none."""
        self._trainer._follow_job()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """To the trainer an epoch without a batch is the end of training. It was one for the others, before this replica came."""
        self._trainer._follow_job()
        if not self._trainer._had_batches:
            control.should_training_stop = False


class Trainer(transformers.Trainer):
    """See the top of this module. `max_batch_size` and `local_bsz_bounds` are those of
    `AdaptiveDataLoader.autoscale_batch_size()`; left out, the batch size stays. `train()` is called once in a program."""

    def __init__(self, *args: Any, max_batch_size: Optional[int] = None,
                 local_bsz_bounds: Optional[Tuple[Optional[int], Optional[int]]] = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.args.gradient_accumulation_steps != 1:
            raise Error("gradient_accumulation_steps is not 1: give the whole batch as per_device_train_batch_size, which the "
                        "replicas share")
        if self.args.world_size != 1 or self.args.n_gpu > 1:
            raise Error("the trainer would use several devices, or torch.distributed, by itself: start each replica with "
                        "one device, and not by torchrun or accelerate")
        if self.args.max_steps > 0:
            raise Error("max_steps is given: a job is counted in epochs; give num_train_epochs")
        self._max_batch_size = max_batch_size
        self._local_bsz_bounds = local_bsz_bounds
        self._epochs: Optional[Epochs] = None
        # Of the epoch in progress: its number, its steps with the given batch size, and whether this replica has had any.
        self._epoch, self._steps_in_epoch, self._had_batches = 0, 1, False
        self.callback_handler.callbacks.insert(0, _Follow(self))

    def get_train_dataloader(self) -> AdaptiveDataLoader:
        """The data, dealt out to all replicas."""
        # The plain one: Accelerate's reads a batch ahead.
        self.accelerator.prepare = lambda loader: loader
        try:
            plain = super().get_train_dataloader()
        finally:
            del self.accelerator.prepare
        loader = elastic_loader(plain, self.args.data_seed or self.args.seed)
        if self._max_batch_size is not None:
            loader.autoscale_batch_size(self._max_batch_size, self._local_bsz_bounds)
        return loader

    def _init_training_state(self, max_steps: int, num_update_steps_per_epoch: int, num_train_epochs: int,
                             resume_from_checkpoint: Any, trial: Any) -> Tuple[int, int]:
        if resume_from_checkpoint is not None:
            raise Error("resume_from_checkpoint is given: the job goes on from its own checkpoint by itself")
        if self._epochs is not None:
            raise Error("train() is called a second time; a job trains once")
        super()._init_training_state(max_steps, num_update_steps_per_epoch, num_train_epochs, None, trial)
        self._epochs = Epochs(num_train_epochs)
        return self._epochs.first(), 0

    def _prepare_for_training(self, *args: Any, **kwargs: Any) -> Tuple[Any, Any]:
        model, loader = super()._prepare_for_training(*args, **kwargs)
        if model is not self.model:
            raise Error(f"the trainer has wrapped the model, as {type(model).__name__}: leave that setting away")
        optimizer = getattr(self.optimizer, "optimizer", self.optimizer)
        parallel = AdaptiveDataParallel(self.model, optimizer, self.lr_scheduler)
        self.model_wrapped = parallel
        self.state.global_step = _job.job().place().optimizer_steps
        assert self._epochs is not None
        self.state.epoch = self._epochs.first()
        return parallel, loader

    def _follow_job(self) -> None:
        """The trainer counts what it has done itself. These are the counts of the job, whether this replica was there or not."""
        assert self._epochs is not None
        self.state.global_step = _job.job().place().optimizer_steps
        self.state.epoch = self._epoch + self._epochs.steps() / self._steps_in_epoch

    def _run_epoch(self, **kwargs: Any) -> None:
        assert self._epochs is not None
        self._epoch, self._steps_in_epoch, self._had_batches = kwargs["epoch"], kwargs["steps_in_epoch"], False
        self._epochs.begin(self._epoch)
        self._follow_job()
        super()._run_epoch(**dict(kwargs, num_update_steps_per_epoch=_ANY_NUMBER))
        self.control.should_training_stop = any_of(self.control.should_training_stop)

    def _maybe_log_save_evaluate(self, *args: Any, **kwargs: Any) -> None:
        # Of a step that came to nothing there is nothing to be told.
        if not _job.job().place().is_void:
            super()._maybe_log_save_evaluate(*args, **kwargs)

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Tuple[list, Any]:
        """The next batch; none ends the epoch."""
        batches, items = super().get_batch_samples(*args, **kwargs)
        if batches:
            self._had_batches = True
        else:
            self.control.should_epoch_stop = True
        return batches, items

    def _finalize_training(self, *args: Any, **kwargs: Any) -> Any:
        assert self._epochs is not None
        self._epochs.end()
        return super()._finalize_training(*args, **kwargs)

    # --- Files, which rank 0 writes ---

    def is_world_process_zero(self) -> bool:
        """Whether this is rank 0."""
        return env.replica_rank() == 0

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        if env.replica_rank() == 0:
            super()._save_checkpoint(*args, **kwargs)

    def save_model(self, *args: Any, **kwargs: Any) -> None:
        """On rank 0."""
        if env.replica_rank() == 0:
            super().save_model(*args, **kwargs)
