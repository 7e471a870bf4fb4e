"""The goodput model: how fast a job trains, how much each sample is worth, and the batch size that is best.

    perf = PerfParams(0.12, 0.0057, 0.024, 0.0063, 0.012, 0.0032, 1.14)
    fn = GoodputFunction(perf, GradParams(0.00136, 0.0005), init_batch_size=128)
    goodput, atomic_bsz, accum_steps = fn.optimize(1, 3, max_batch_size=1280)

Names, arguments and answers are AdaptDL's; what computes them is the engine's own model (libs/goodput).
Arguments are numbers or arrays that NumPy can broadcast, answers NumPy arrays of that shape, or numbers for
numbers. Times are in seconds, batch sizes in samples. What the model can't take raises ValueError with a text
that names it. Thread-safe.
"""

import ctypes
import functools
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64
from typing import Any, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

__all__ = ["GoodputFunction", "GradParams", "PerfParams", "fit_perf_params"]

Numbers = Union[int, float, Sequence[float], "np.ndarray[Any, Any]"]

_LIBRARY = "libadaptdl_engine.so"
_TEXT_BYTES = 1024
# Whole numbers up to here have a place in a double.
_LARGEST = 2**53


class PerfParams(NamedTuple):
    """How long a step takes: compute, network between nodes (n) and within one (r), and their overlap."""

    alpha_c: float
    beta_c: float
    alpha_n: float
    beta_n: float
    alpha_r: float
    beta_r: float
    gamma: float


class GradParams(NamedTuple):
    """Squared norm of the gradient, and its variance, at the initial batch size."""

    sqr: float
    var: float


class _Model(ctypes.Structure):
    _fields_ = [("perf", c_double * 7), ("grad", c_double * 2), ("init_batch_size", c_int64)]


class _Limits(ctypes.Structure):
    _fields_ = [
        ("max_batch_size", c_int64),
        ("min_local", c_int64),
        ("max_local", c_int64),
        ("accumulation", c_int32),
    ]


_Integers = POINTER(c_int64)
_Doubles = POINTER(c_double)
_ARGUMENTS = {
    "throughput": [POINTER(_Model), c_int64, _Integers, _Integers, _Integers, _Integers, _Doubles],
    "efficiency": [POINTER(_Model), c_int64, _Doubles, _Doubles],
    "times": [_Doubles, c_int64, _Integers, _Integers, _Doubles, _Doubles, _Doubles, _Doubles],
    "optimize": [
        POINTER(_Model),
        POINTER(_Limits),
        c_int64,
        _Integers,
        _Integers,
        _Doubles,
        _Integers,
        _Integers,
    ],
    "fit": [c_int64, _Integers, _Integers, _Integers, _Doubles, _Doubles, _Doubles],
    "loss": [_Doubles, c_int64, _Integers, _Integers, _Integers, _Doubles, _Doubles, _Doubles],
}


@functools.lru_cache(maxsize=None)
def _engine() -> ctypes.CDLL:
    """The engine, opened at the first use."""
    library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), _LIBRARY))
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, "adaptdl_goodput_" + name)
        function.argtypes = [*arguments, c_char_p, c_int64]
        function.restype = ctypes.c_int
    return library


def _call(name: str, *arguments: Any) -> None:
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    if getattr(_engine(), "adaptdl_goodput_" + name)(*arguments, text, _TEXT_BYTES) != 0:
        raise ValueError(text.value.decode("utf-8", "replace"))


def _integers(name: str, values: Numbers) -> "np.ndarray[Any, Any]":
    """The values as 64-bit integers; ones that are none are refused."""
    array = np.asarray(values)
    if array.size == 0:
        return np.empty(array.shape, dtype=np.int64)
    if array.dtype.kind not in "iuf" or not np.array_equal(array, np.floor(array)):
        raise ValueError(f"{name} holds something that is no whole number: {array!r}")
    if np.abs(array).max() > _LARGEST:
        raise ValueError(f"{name} holds a number that is too large: {array!r}")
    return np.asarray(array, dtype=np.int64)


def _pointer(array: "np.ndarray[Any, Any]") -> Any:
    return array.ctypes.data_as(_Integers if array.dtype == np.int64 else _Doubles)


def _broadcast(*arrays: "np.ndarray[Any, Any]") -> Tuple[Tuple[int, ...], Sequence["np.ndarray[Any, Any]"]]:
    """The common shape, and each array in it as a flat one of its own."""
    shaped = np.broadcast_arrays(*arrays)
    return shaped[0].shape, [np.ascontiguousarray(array).reshape(-1) for array in shaped]


def _shaped(shape: Tuple[int, ...], values: "np.ndarray[Any, Any]") -> Any:
    """The values in that shape; a plain number where all arguments were."""
    return values.reshape(shape) if shape else values[0]


class GoodputFunction:
    """Goodput of a job, by where its replicas run and how they step."""

    def __init__(
        self, perf_params: Sequence[float], grad_params: Sequence[float], init_batch_size: int
    ) -> None:
        self._perf_params = PerfParams(*perf_params)
        self._grad_params = GradParams(*grad_params)
        self._init_batch_size = int(init_batch_size)
        self._model = _Model(
            (c_double * 7)(*self._perf_params), (c_double * 2)(*self._grad_params), self._init_batch_size
        )

    def __call__(
        self, num_nodes: Numbers, num_replicas: Numbers, atomic_bsz: Numbers, accum_steps: Numbers
    ) -> Any:
        """The same as evaluate()."""
        return self.evaluate(num_nodes, num_replicas, atomic_bsz, accum_steps)

    def evaluate(
        self, num_nodes: Numbers, num_replicas: Numbers, atomic_bsz: Numbers, accum_steps: Numbers
    ) -> Any:
        """Throughput times efficiency. No total batch size may be smaller than the initial one."""
        batch_size = np.asarray(num_replicas) * np.asarray(atomic_bsz) * (np.asarray(accum_steps) + 1)
        if np.any(batch_size < self._init_batch_size):
            raise ValueError(
                f"a total batch size, {batch_size.min()}, is smaller than the initial one, "
                f"{self._init_batch_size}"
            )
        return self.throughput(num_nodes, num_replicas, atomic_bsz, accum_steps) * self.efficiency(batch_size)

    def throughput(
        self, num_nodes: Numbers, num_replicas: Numbers, atomic_bsz: Numbers, accum_steps: Numbers
    ) -> Any:
        """Samples per second."""
        shape, flat = _broadcast(
            _integers("num_nodes", num_nodes),
            _integers("num_replicas", num_replicas),
            _integers("atomic_bsz", atomic_bsz),
            _integers("accum_steps", accum_steps),
        )
        result = np.empty(flat[0].size)
        _call("throughput", byref(self._model), result.size, *map(_pointer, flat), _pointer(result))
        return _shaped(shape, result)

    def efficiency(self, batch_size: Numbers) -> Any:
        """Worth of a sample in batches of this total size, relative to one in those of the initial size."""
        shape, (sizes,) = _broadcast(np.asarray(batch_size, dtype=np.float64))
        result = np.empty(sizes.size)
        _call("efficiency", byref(self._model), result.size, _pointer(sizes), _pointer(result))
        return _shaped(shape, result)

    def optimize(
        self,
        num_nodes: Numbers,
        num_replicas: Numbers,
        max_batch_size: Optional[int] = None,
        atomic_bsz_range: Optional[Tuple[Optional[int], Optional[int]]] = None,
        accumulation: bool = False,
    ) -> Tuple[Any, Any, Any]:
        """The largest goodput, the atomic batch size and the accumulation steps that give it.

        They are the best of AdaptDL's 50 candidates, and so have its peculiarities: the bounds of the atomic
        batch size may lead beyond the largest total, and one replica without accumulation keeps the initial
        batch size. Training itself chooses among all sizes that are within the bounds.
        """
        low, high = atomic_bsz_range or (None, None)
        limits = _Limits(max_batch_size or 0, low or 0, high or 0, int(accumulation))
        shape, flat = _broadcast(_integers("num_nodes", num_nodes), _integers("num_replicas", num_replicas))
        goodput = np.empty(flat[0].size)
        atomic_bsz = np.empty(flat[0].size, dtype=np.int64)
        accum_steps = np.empty(flat[0].size, dtype=np.int64)
        _call(
            "optimize",
            byref(self._model),
            byref(limits),
            goodput.size,
            *map(_pointer, flat),
            _pointer(goodput),
            _pointer(atomic_bsz),
            _pointer(accum_steps),
        )
        return _shaped(shape, goodput), _shaped(shape, atomic_bsz), _shaped(shape, accum_steps)


def _measurements(
    num_nodes: Numbers,
    num_replicas: Numbers,
    atomic_bsz: Numbers,
    accum_step_time: Numbers,
    optim_step_time: Numbers,
) -> Tuple[int, Sequence[Any]]:
    """How many there are, and the arrays that _call() takes, which the caller keeps for the call."""
    _, flat = _broadcast(
        _integers("num_nodes", num_nodes),
        _integers("num_replicas", num_replicas),
        _integers("atomic_bsz", atomic_bsz),
        np.asarray(accum_step_time, dtype=np.float64),
        np.asarray(optim_step_time, dtype=np.float64),
    )
    return flat[0].size, flat


def fit_perf_params(
    num_nodes: Numbers,
    num_replicas: Numbers,
    atomic_bsz: Numbers,
    accum_step_time: Numbers,
    optim_step_time: Numbers,
) -> PerfParams:
    """The parameters that explain measured step times best.

    One entry of each argument for each configuration that was measured: `accum_step_time` is the mean time of
    a micro-step without an exchange of gradients, `optim_step_time` that of one with it. What the
    measurements can't tell is fixed by AdaptDL's rules.
    """
    count, flat = _measurements(num_nodes, num_replicas, atomic_bsz, accum_step_time, optim_step_time)
    result = np.empty(len(PerfParams._fields))
    _call("fit", count, *map(_pointer, flat), _pointer(result))
    return PerfParams(*map(float, result))


def _obj_fn(
    params: Sequence[float],
    num_nodes: Numbers,
    num_replicas: Numbers,
    atomic_bsz: Numbers,
    accum_step_time: Numbers,
    optim_step_time: Numbers,
) -> float:
    """What the fit minimises."""
    count, flat = _measurements(num_nodes, num_replicas, atomic_bsz, accum_step_time, optim_step_time)
    perf = np.array(params, dtype=np.float64)
    result = np.empty(1)
    _call("loss", _pointer(perf), count, *map(_pointer, flat), _pointer(result))
    return float(result[0])


def _predict_times(
    params: Sequence[float], num_nodes: Numbers, num_replicas: Numbers, atomic_bsz: Numbers
) -> Tuple[Any, Any, Any]:
    """Times of a micro-step, of an exchange, and of the step that ends with one."""
    shape, flat = _broadcast(
        _integers("num_nodes", num_nodes),
        _integers("num_replicas", num_replicas),
        np.asarray(atomic_bsz, dtype=np.float64),
    )
    perf = np.array(params, dtype=np.float64)
    times = [np.empty(flat[0].size) for _ in range(3)]
    _call("times", _pointer(perf), flat[0].size, *map(_pointer, flat), *map(_pointer, times))
    accum, network, optim = (_shaped(shape, time) for time in times)
    return accum, network, optim
