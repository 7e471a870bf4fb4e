"""Trains one model on all replicas of a job."""

import contextlib
import ctypes
from typing import Any, Iterator, Optional

import torch
from torch.nn.parallel import DistributedDataParallel

from adaptdl import Error, _job, env
from adaptdl._engine import STEP_IS_PLAIN, Statistics, check, engine
from adaptdl._states import BytesState
from adaptdl.torch import _devices, _encoding
from adaptdl.torch._scaler import SharedScaler
from adaptdl.torch._step import ModelStep, _is_adam
from adaptdl.torch._tensor_states import ModelState, OptimizerState
from adaptdl.torch._tensors import SharedTensors
from adaptdl.torch.gradient_noise_scale import GradientNoiseScale
from adaptdl.torch.scaling_rules import AdamScale, AdaScale, ScalingRuleBase

# Of DistributedDataParallel, without a meaning here: the engine does what they ask for, or has no need to.
_IGNORED = frozenset([
    "device_ids", "output_device", "dim", "broadcast_buffers", "find_unused_parameters", "check_reduction",
    "gradient_as_bucket_view", "static_graph"
])


class AdaptiveDataParallel(DistributedDataParallel):
    """Averages the gradients over the replicas and the micro-batches of each step, by samples, so that the
    step is the one that a single process takes with the whole batch; restores model and optimiser, and makes
    them the same everywhere.

    The loop stays as it is: `optimizer.step()` and `optimizer.zero_grad()` know of it. When `backward()`
    returns, the gradients are the averages, and may be clipped. The loss must be a mean over the batch. A
    step is taken on all replicas or on none.

    `lr_scheduler` and `mp_scaler` (a GradScaler) become part of the job's checkpoints. `scaling_rule` is how
    the learning rate follows the batch size: AdamScale for Adam and AdamW, else AdaScale. `name` tells
    several models of a job apart. `statistics_period`: gradient statistics are measured in one step of so
    many.

    It is a DistributedDataParallel by name, so that what asks for one finds it (`module`, `state_dict()`),
    and nothing of that one's inside is used.
    """
    def __init__(self,
                 model: torch.nn.Module,
                 optimizer: torch.optim.Optimizer,
                 lr_scheduler: Any = None,
                 mp_scaler: Any = None,
                 scaling_rule: Optional[ScalingRuleBase] = None,
                 name: str = "adaptdl-dataparallel",
                 *,
                 bucket_cap_mb: float = 4,
                 statistics_period: int = 8,
                 **kwargs: Any) -> None:
        unknown = sorted(set(kwargs) - _IGNORED)
        if unknown:
            raise TypeError(f"AdaptiveDataParallel has no {', '.join(unknown)}")
        _check_kinds(model, optimizer)
        torch.nn.Module.__init__(self)
        self.module = model
        self.device_ids = None
        self.require_backward_grad_sync = True
        self._scaler = mp_scaler if mp_scaler is not None and mp_scaler.is_enabled() else None
        self.scaling_rule = scaling_rule or (AdamScale() if _is_adam(optimizer) else AdaScale())
        tensors = SharedTensors(model, optimizer)
        job = self._job = _job.job()
        model_state = ModelState(job, name, model)
        optimizer_state = OptimizerState(job, name, optimizer)
        step = ModelStep(job, name, model, optimizer, tensors, self._scaler, self.scaling_rule,
                         int(bucket_cap_mb * 2**20), statistics_period)
        job.meet([model_state.state.handle, optimizer_state.state.handle])
        self._states = [
            model_state.state, optimizer_state.state,
            BytesState(job, name + "-random", _save_random, _load_random)
        ]
        if tensors.device.type != "cpu":
            self._states.append(_device_random_state(job, name, tensors.device))
        restored = self._states[0].register()
        for state in self._states[1:]:
            state.register()
        # Whatever is restored is the same on all replicas.
        if not restored:
            self._broadcast()
        if lr_scheduler is not None:
            self._add_state(_scheduler_state(job, f"{name}-lr-scheduler", lr_scheduler))
            _leave_out_void_steps(job, lr_scheduler)
        self._shared_scaler: Optional[SharedScaler] = None
        if self._scaler is not None:
            self._shared_scaler = SharedScaler(job, f"{name}-grad-scaler", self._scaler)
            self._add_state(self._shared_scaler.state)
        job.at_close(self._close)
        step.open()
        # In no list of modules: it is none.
        object.__setattr__(self, "_engine", step)
        self._step_kind = tensors.step
        if self._shared_scaler is not None:
            self._shared_scaler.follow(step)
        self.gns = GradientNoiseScale(self._engine)
        self.scaling_rule.initialize(self, optimizer)

    def _add_state(self, state: BytesState) -> None:
        state.register()
        self._states.append(state)

    def _close(self) -> None:
        for state in reversed(self._states):
            state.close()

    def _broadcast(self) -> None:
        with torch.no_grad():
            for tensor in [*self.module.parameters(), *self.module.buffers()]:
                plain = tensor.detach().contiguous().cpu()
                check(
                    engine.job_broadcast(self._job.handle, plain.data_ptr(),
                                         plain.numel() * plain.element_size()))
                if plain.data_ptr() != tensor.data_ptr():
                    tensor.copy_(plain)

    # --- As a module ---

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """As the model's."""
        # Not by name: looking for one is most of what a module costs.
        output = self._modules["module"](*inputs, **kwargs)  # type: ignore[misc]
        if self._step_kind.value != STEP_IS_PLAIN and torch.is_grad_enabled():
            self._engine.watch(output)
        return output

    def train(self, mode: bool = True) -> "AdaptiveDataParallel":
        """As the model's."""
        torch.nn.Module.train(self, mode)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As the optimiser's: nothing between the micro-batches of a step."""
        if not self._engine.accumulating():
            self.module.zero_grad(set_to_none)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Refused: the data loader cuts steps into micro-batches where that is needed."""
        raise Error(
            "no_sync() is not supported: give the data loader max_local_batch_size, or gradient_accumulation, and "
            "leave the loop as it is")
        yield

    def join(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: replicas have unequal shares anyway."""
        raise Error(
            "join() is not needed: batches are dealt out to all replicas, and an empty share counts for nothing"
        )

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """Refused: the engine exchanges gradients."""
        raise Error(
            "register_comm_hook() is not supported: the engine exchanges gradients, in their own type")

    def __getstate__(self) -> Any:
        raise Error("AdaptiveDataParallel cannot be pickled: save its state_dict(), or pickle its module")

    # --- What came out ---

    def _statistics(self) -> Statistics:
        statistics = Statistics()
        check(engine.model_statistics(self._engine.handle, ctypes.byref(statistics)))
        return statistics

    @property
    def gain(self) -> float:
        """Steps at the initial batch size that the last step was worth."""
        return self._statistics().gain

    @property
    def learning_rate_factor(self) -> float:
        """What the learning rate was multiplied by in the last step, averaged over the parameter groups."""
        return self._statistics().learning_rate_factor

    def to_tensorboard(self, writer: Any, global_step: int, tag_prefix: str = "") -> None:
        """Writes what is known of the gradients, as scalars whose tags begin with `tag_prefix`, into a
        SummaryWriter."""
        statistics = self._statistics()
        for tag, value in (("Gradient_Norm_Sqr", statistics.sqr_avg),
                           ("Gradient_Variance", statistics.var_avg), ("Gain", statistics.gain),
                           ("Learning_Rate_Factor", statistics.learning_rate_factor), ("Accum_Scale",
                                                                                       self.gns.accum_scale),
                           ("Accum_Count", self.gns.accum_count), ("Progress", statistics.progress)):
            writer.add_scalar(tag_prefix + tag, value, global_step)


def _check_kinds(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """What talks to other processes itself counts on as many as there were, with shares of one size."""
    if any(isinstance(module, torch.nn.SyncBatchNorm) for module in model.modules()):
        raise Error(
            "the model has a SyncBatchNorm, which counts on equal shares of the same processes: use BatchNorm; its "
            "running statistics are averaged over the replicas")
    if any(kind.__name__ == "ZeroRedundancyOptimizer" for kind in type(optimizer).__mro__):
        raise Error(
            "ZeroRedundancyOptimizer keeps a part of its state on each process alone, where it would be lost with "
            "it: use the optimiser that it wraps")


def _save_random() -> bytes:
    return torch.get_rng_state().numpy().tobytes()


def _load_random(data: bytes) -> None:
    """Rank 0 goes on exactly; the others get streams of their own."""
    state = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    torch.set_rng_state(state)
    rank = env.replica_rank()
    if rank > 0:
        torch.manual_seed(int(torch.randint(2**62, ()).item()) + rank)


def _device_random_state(job: _job.Job, name: str, device: torch.device) -> BytesState:
    def save() -> bytes:
        return torch.cuda.get_rng_state(device).numpy().tobytes()

    def load(data: bytes) -> None:
        torch.cuda.set_rng_state(torch.frombuffer(bytearray(data), dtype=torch.uint8), device)
        rank = env.replica_rank()
        if rank > 0:
            seed = torch.randint(2**62, (), device=device).item()
            torch.cuda.default_generators[_devices.index_of(device)].manual_seed(int(seed) + rank)

    return BytesState(job, name + "-device-random", save, load)


def _scheduler_state(job: _job.Job, name: str, scheduler: Any) -> BytesState:
    return BytesState(job, name, lambda: _encoding.to_text(scheduler.state_dict(), name).encode(),
                      lambda data: scheduler.load_state_dict(_encoding.from_text(data.decode())))


def _leave_out_void_steps(job: _job.Job, scheduler: Any) -> None:
    """A step that came to nothing, because a replica was lost, is none of the schedule's: the loop's body
    runs again."""
    kind = type(scheduler)

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if job.handle is None or not job.place().is_void:
            return kind.step(self, *args, **kwargs)
        return None

    # By a class of its own: what is put into the object itself would be part of its state_dict().
    scheduler.__class__ = type(kind.__name__, (kind,), {"step": step, "__module__": kind.__module__})
