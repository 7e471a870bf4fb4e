"""What is known of how noisy a model's gradients are: the gradient noise scale, and what it says of larger
batches."""

import ctypes
from ctypes import c_double
from typing import Any, List, Tuple

import numpy

from adaptdl._engine import Statistics, check, engine

__all__ = ["GradientNoiseScale"]


class GradientNoiseScale:
    """The estimates of one model, as the engine measures them; `AdaptiveDataParallel.gns` is one. At the
    initial batch size: `sqr` is the squared norm of the true gradient, `var` the trace of its covariance."""
    def __init__(self, step: Any) -> None:
        # What the model's steps are: its handle, its parameter groups, the micro-batch in progress.
        self._step = step

    def _statistics(self) -> Statistics:
        statistics = Statistics()
        check(engine.model_statistics(self._step.handle, ctypes.byref(statistics)))
        return statistics

    def _raw(self) -> Tuple[List[float], List[float]]:
        doubles = c_double * self._step.num_groups
        sqr, var = doubles(), doubles()
        check(engine.model_raw_statistics(self._step.handle, sqr, var))
        return list(sqr), list(var)

    def sqr_avg(self) -> float:
        """Over all parameter groups."""
        return self._statistics().sqr_avg

    def var_avg(self) -> float:
        """Over all parameter groups."""
        return self._statistics().var_avg

    @property
    def raw_sqr_avg(self) -> "numpy.ndarray[Any, Any]":
        """By parameter group, as estimated: it may be negative."""
        return numpy.array(self._raw()[0])

    @property
    def raw_var_avg(self) -> "numpy.ndarray[Any, Any]":
        """By parameter group, as estimated: it may be negative."""
        return numpy.array(self._raw()[1])

    def gain(self, scale: float) -> float:
        """How many steps at the initial batch size a step with one `scale` times as large is worth."""
        return engine.model_gain_at(self._step.handle, scale)

    def get_progress(self) -> float:
        """Steps at the initial batch size that all steps so far were worth."""
        return self._statistics().progress

    @property
    def init_batch_size(self) -> int:
        """The batch size that the estimates are of."""
        return self._step.init_batch_size

    @property
    def accum_scale(self) -> float:
        """A micro-batch of all replicas by the initial batch size."""
        batch = self._step.batch
        return batch.local_batch_size * batch.replicas / self._step.init_batch_size

    @property
    def accum_count(self) -> int:
        """Micro-batches of the step in progress."""
        return self._step.batch.micro_batches
