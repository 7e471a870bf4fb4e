"""PyTorch Lightning on the replicas of a job, however many there are:

    trainer = Trainer(max_epochs=10, strategy=AdaptDLStrategy())

The rest of a script stays as it is. The training loader's `batch_size` is the whole batch's, over all replicas. Model, optimiser,
schedule and the place in the data are in the job's checkpoints, so that `ckpt_path` is not needed; replicas that come in take part
from the next step on. Evaluation runs whole on each replica; files are written by rank 0. One optimiser, automatic optimisation.

Needs the package lightning (or pytorch_lightning).
"""

import functools
import operator
from typing import Any, Callable, Optional, Tuple

from adaptdl import Error, _job, collective, env

try:
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import Callback
    from lightning.pytorch.loops.fetchers import _PrefetchDataFetcher
    from lightning.pytorch.strategies import SingleDeviceStrategy
    from lightning.pytorch.trainer.states import TrainerFn
    from lightning.pytorch.utilities.rank_zero import rank_zero_only
except ImportError as missing:
    raise Error(f"adaptdl.lightning needs PyTorch Lightning: pip install 'lightning>=2.6' ({missing})") from missing

import torch
from torch.utils.data import DataLoader

from adaptdl._frameworks import Epochs, elastic_loader
from adaptdl.torch import AdaptiveDataParallel

__all__ = ["AdaptDLStrategy"]


class _Batches(_PrefetchDataFetcher):
    """Asks the loader itself whether a batch is the last one: how many are left changes with the replicas and their batches.
    `on_batch` is called before Lightning counts it."""

    def __init__(self, loader: Any, on_batch: Callable[[], None]) -> None:
        super().__init__(prefetch_batches=0)
        self._loader = loader
        self._on_batch = on_batch

    def reset(self) -> None:
        """A pass begins."""
        super().reset()
        self.length = None
        self.done = False

    def __next__(self) -> Any:
        batch = super().__next__()
        self.done = self._loader.is_last_batch()
        self._on_batch()
        return batch

    def end_pass(self) -> None:
        """The loader's loop ends with the epoch. Left to itself it would when the next one has begun, in which a replica that
        comes in would find one loop less."""
        for batches in self.combined_loader._iterator.iterators:
            batches.close()


def _set_all(progress: Any, count: int) -> None:
    """What has begun is done."""
    progress.ready = progress.started = progress.processed = progress.completed = count


class _Follow(Callback):
    """Lets the job's epochs begin and end with Lightning's."""

    def __init__(self, strategy: "AdaptDLStrategy") -> None:
        self._strategy = strategy

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The loop is there."""
        self._strategy._begin(trainer)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """An epoch begins."""
        self._strategy._epochs.begin(trainer.current_epoch)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """It is over, before anybody else hears of it."""
        trainer.fit_loop._data_fetcher.end_pass()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """All epochs are over."""
        self._strategy._end()


class AdaptDLStrategy(SingleDeviceStrategy):
    """See the top of this module. `max_batch_size` and `local_bsz_bounds` are those of
    `AdaptiveDataLoader.autoscale_batch_size()`; left out, the batch size stays. Others go to AdaptiveDataParallel."""

    strategy_name = "adaptdl"

    def __init__(self, max_batch_size: Optional[int] = None,
                 local_bsz_bounds: Optional[Tuple[Optional[int], Optional[int]]] = None, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(device="cpu")
        self._max_batch_size = max_batch_size
        self._local_bsz_bounds = local_bsz_bounds
        self._seed = seed
        self._options = kwargs
        self._loader: Any = None
        self._training = False
        self._epochs: Any = None

    # --- Who this is ---

    @property
    def global_rank(self) -> int:
        """This replica's."""
        return env.replica_rank()

    @global_rank.setter
    def global_rank(self, rank: int) -> None:
        """The job says."""

    @property
    def world_size(self) -> int:
        """Replicas there are."""
        return env.num_replicas()

    @world_size.setter
    def world_size(self, size: int) -> None:
        """The job says."""

    @property
    def is_global_zero(self) -> bool:
        """Whether this replica writes files."""
        return self.global_rank == 0

    # --- Setting up ---

    def setup_environment(self) -> None:
        """Before the model is."""
        rank_zero_only.rank = self.global_rank
        # Signals are the job's: Lightning would end on SIGTERM, where the job checkpoints and says that it was stopped.
        self.lightning_module.trainer._signal_connector.register_signal_handlers = lambda: None
        super().setup_environment()

    def process_dataloader(self, dataloader: object) -> object:
        """Training data are dealt out to the replicas; others stay whole."""
        trainer = self.lightning_module.trainer
        if trainer.state.fn != TrainerFn.FITTING or trainer.validating or trainer.sanity_checking:
            return dataloader
        if not isinstance(dataloader, DataLoader):
            raise Error(f"the training loader is a {type(dataloader).__name__}; give a torch.utils.data.DataLoader")
        self._loader = elastic_loader(dataloader, self._seed)
        if self._max_batch_size is not None:
            self._loader.autoscale_batch_size(self._max_batch_size, self._local_bsz_bounds)
        return self._loader

    def setup(self, trainer: Any) -> None:
        """Wraps the model, once it has its optimiser."""
        super().setup(trainer)
        if trainer.state.fn != TrainerFn.FITTING:
            return
        self._check(trainer)
        schedulers = [config.scheduler for config in self.lr_scheduler_configs]
        self.model = AdaptiveDataParallel(self.lightning_module, self.optimizers[0], schedulers[0] if schedulers else None,
                                          **self._options)
        # Lightning's view of the optimiser takes over what the wrapper has put there.
        self.optimizers = self.optimizers
        self._epochs = Epochs(trainer.max_epochs)
        self._go_to_place(trainer)
        trainer.callbacks.insert(0, _Follow(self))

    def _check(self, trainer: Any) -> None:
        if self._epochs is not None:
            raise Error("fit() is called a second time; a job trains once")
        if len(self.optimizers) != 1 or len(self.lr_scheduler_configs) > 1:
            raise Error(f"the module has {len(self.optimizers)} optimisers and {len(self.lr_scheduler_configs)} schedulers of the "
                        "learning rate; give one, and one at most")
        if not self.lightning_module.automatic_optimization:
            raise Error("the module optimises by itself (automatic_optimization is False): use adaptdl.torch in a loop of your own")
        if trainer.accumulate_grad_batches != 1:
            raise Error("accumulate_grad_batches is not 1: give the whole batch as the loader's batch_size, which the "
                        "replicas share")
        if trainer.max_epochs is None or trainer.max_epochs < 0:
            raise Error("max_epochs is not given: a job is counted in epochs")
        if trainer.ckpt_path is not None:
            raise Error("ckpt_path is given: the job goes on from its own checkpoint by itself")

    def _go_to_place(self, trainer: Any) -> None:
        """The job goes on from a checkpoint, or trains already."""
        epoch = self._epochs.first()
        loop = trainer.fit_loop
        for progress in (loop.epoch_progress.current, loop.epoch_progress.total):
            _set_all(progress, epoch)
        if _job.job().place().optimizer_steps > 0:
            # As Lightning itself has it; and the others would wait for that.
            trainer.num_sanity_val_steps = 0
        self._follow_job()

    def _follow_job(self) -> None:
        """Lightning's counts are those of the job, before each batch: a step that came to nothing is none, and one that was
        taken before this replica came is one. So is who writes files."""
        rank_zero_only.rank = self.global_rank
        loop = self.lightning_module.trainer.fit_loop.epoch_loop
        steps = _job.job().place().optimizer_steps
        _set_all(loop.batch_progress.current, self._epochs.steps())
        _set_all(loop.batch_progress.total, steps)
        count = loop.automatic_optimization.optim_progress.optimizer.step.total
        count.ready = count.completed = loop._batches_that_stepped = steps

    # --- Training ---

    def _begin(self, trainer: Any) -> None:
        loop = trainer.fit_loop
        batches = _Batches(self._loader, self._follow_job)
        batches.setup(loop._combined_loader)
        iter(batches)
        loop._data_fetcher = batches
        # Epochs end when the data do.
        loop._combined_loader.limits = [float("inf")]
        loop.max_batches = float("inf")
        if isinstance(trainer.val_check_interval, float):
            trainer.val_check_batch = float("inf")
        self._training = True

    def _end(self) -> None:
        self._training = False
        self._epochs.end()

    def optimizer_step(self, optimizer: torch.optim.Optimizer, closure: Callable[[], Any], model: Any = None,
                       **kwargs: Any) -> Any:
        """A step that came to nothing, as a replica was lost, is taken again: it was not the epoch's last."""
        result = super().optimizer_step(optimizer, closure, model, **kwargs)
        if _job.job().place().is_void:
            loop = self.lightning_module.trainer.fit_loop
            loop._data_fetcher.done = loop.epoch_loop.batch_progress.is_last_batch = False
        return result

    # --- What replicas tell each other, while they train ---

    def reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        """Over all replicas: "mean" or "sum"."""
        if not self._training:
            return tensor
        name = str(getattr(reduce_op, "name", reduce_op) or "mean").lower()
        if name not in ("mean", "avg", "sum"):
            raise Error(f"reduce_op is {reduce_op!r}; replicas know 'mean' and 'sum'")
        values = collective.gather(tensor)
        total = functools.reduce(operator.add, values)
        return total if name == "sum" else total / len(values)

    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:  # pylint: disable=redefined-builtin
        """Whether all replicas say so, or one of them does."""
        decisions = collective.gather(bool(decision)) if self._training else [decision]
        return False not in decisions if all else True in decisions

    def all_gather(self, tensor: torch.Tensor, group: Any = None, sync_grads: bool = False) -> torch.Tensor:
        """All replicas' tensors, stacked."""
        return torch.stack(collective.gather(tensor)) if self._training else tensor.unsqueeze(0)

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        """Rank 0's object. What is asked before training each replica answers itself: one that comes in meets the others last."""
        return collective.gather(obj)[src] if self._training else obj

    def barrier(self, name: Optional[str] = None) -> None:
        """Waits for all, while they train."""
        if self._training:
            collective.gather(None)


if pl.__version__.split(".")[0] != "2":
    raise Error(f"adaptdl.lightning works with Lightning 2, and not with {pl.__version__}")
