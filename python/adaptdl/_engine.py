"""The engine's C interface (python/engine/adaptdl_engine.h) by ctypes: its structures, its functions, and its
failures as exceptions.

The library is opened at the first use, not at import. Calls release the interpreter's lock; callbacks take
it.
"""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_uint8, c_uint64, c_void_p
from typing import Any, Callable, List, NoReturn

from adaptdl import Error

INTERFACE = 2
OK, ERROR, EXIT, CALLBACK = range(4)

KEEP, DROP, USE_SLOT = range(3)
SPARSE = 1

LOOKS_AT_PASS, LOOKS_AT_GRADIENTS = 1, 2
PASS_IS_OVER, PASS_ENDS, PASS_BEGINS = range(3)
STEP_IS_ENGINES, STEP_IS_PLAIN, STEP_TAKEN = range(3)

RULE_OWN, RULE_ADASCALE, RULE_ADAMSCALE, RULE_LINEAR, RULE_SQRT, RULE_LEGW = range(6)


class Place(ctypes.Structure):
    _fields_ = [("met", c_int32), ("rank", c_int32), ("replicas", c_int32), ("nodes", c_int32),
                ("current_epoch", c_int32), ("finished_epochs", c_int32), ("in_loop", c_int32),
                ("replaying", c_int32), ("is_void", c_int32), ("stand_in", c_int32), ("joined", c_int32),
                ("optimizer_steps", c_int64), ("group", c_int64)]


class LoaderOptions(ctypes.Structure):
    _fields_ = [("size", c_int64), ("batch_size", c_int64), ("base_batch_size", c_int64),
                ("max_local_batch_size", c_int64), ("seed", c_uint64), ("band", c_double),
                ("shuffle", c_int32), ("drop_last", c_int32)]


class Batch(ctypes.Structure):
    _fields_ = [("more", c_int32), ("is_optimizer_step", c_int32), ("count", c_int64),
                ("indices", POINTER(c_int64)), ("weight", c_int64), ("micro_batch", c_int64),
                ("micro_batches", c_int64), ("batch_size", c_int64), ("local_batch_size", c_int64),
                ("position", c_int64), ("pass_", c_int64), ("replicas", c_int64)]


class StreamSample(ctypes.Structure):
    _fields_ = [("shard", c_int64), ("position", c_int64), ("number", c_int64)]


class Parameter(ctypes.Structure):
    _fields_ = [("count", c_int64), ("type", c_int32), ("group", c_int32)]


class Moments(ctypes.Structure):
    _fields_ = [("exp_avg_sq", c_void_p), ("step", c_int64), ("beta2", c_double), ("epsilon", c_double),
                ("type", c_int32)]


class Shared(ctypes.Structure):
    _fields_ = [("num_parameters", c_int64), ("num_buffers", c_int64), ("num_groups", c_int32),
                ("parameters", POINTER(Parameter)), ("buffer_counts", POINTER(c_int64)),
                ("buffer_types", POINTER(c_int32)), ("gradients", POINTER(c_uint64)),
                ("buffers", POINTER(c_uint64)), ("trained", POINTER(c_uint8)), ("changes", POINTER(c_uint8)),
                ("changed", POINTER(c_int64)), ("slots", POINTER(c_uint64)), ("moments", POINTER(Moments)),
                ("loss_scale", POINTER(c_double)), ("may_look", POINTER(c_int64)),
                ("step", POINTER(c_int64)), ("stream", POINTER(c_uint64))]


class ModelOptions(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("bucket_bytes", c_int64), ("overlap", c_int32),
                ("statistics_period", c_int32), ("is_adam", c_int32), ("scales_loss", c_int32),
                ("rule", c_int32), ("rule_number", c_double), ("rule_samples", c_int64),
                ("num_optimizer_parameters", c_int64), ("device", c_int32)]


class Statistics(ctypes.Structure):
    _fields_ = [("gain", c_double), ("learning_rate_factor", c_double), ("sqr_avg", c_double),
                ("var_avg", c_double), ("progress", c_double)]


class Tensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_char_p), ("dimensions", c_int64), ("shape", POINTER(c_int64))]


class LogLine(ctypes.Structure):
    _fields_ = [("severity", c_int32), ("rank", c_int32), ("seconds", c_double), ("part", c_char_p),
                ("text", c_char_p)]


Nothing = ctypes.CFUNCTYPE(c_int)
WithHandle = ctypes.CFUNCTYPE(c_int, c_void_p)
WithBytes = ctypes.CFUNCTYPE(c_int, c_void_p, c_int64)
WithNumber = ctypes.CFUNCTYPE(c_int, c_int64)
WithVersions = ctypes.CFUNCTYPE(c_int, c_int64, POINTER(c_uint64))
WithFactors = ctypes.CFUNCTYPE(c_int, POINTER(c_double), c_int64)
RuleFactors = ctypes.CFUNCTYPE(c_int, c_double, c_double, c_int64, POINTER(c_double), POINTER(c_double),
                               POINTER(c_double), c_int64)
WithLease = ctypes.CFUNCTYPE(c_int, c_int64, c_int64)
WithSample = ctypes.CFUNCTYPE(c_int, POINTER(StreamSample))
WithShard = ctypes.CFUNCTYPE(c_int, c_int64, POINTER(c_int64))


class StreamCalls(ctypes.Structure):
    _fields_ = [("lease", WithLease), ("forget", Nothing), ("take", WithSample), ("first", WithShard)]


class SumsCalls(ctypes.Structure):
    _fields_ = [("merge", Nothing), ("keep_step", Nothing), ("drop_step", Nothing),
                ("in_step", POINTER(c_int64))]


class BytesCalls(ctypes.Structure):
    _fields_ = [("sync", Nothing), ("save", WithHandle), ("load", WithBytes)]


class TensorsCalls(ctypes.Structure):
    _fields_ = [("list", WithHandle), ("open", WithHandle), ("commit", Nothing)]


class ModelCalls(ctypes.Structure):
    _fields_ = [("optimizer_step", WithFactors), ("take_moments", Nothing), ("make_gradient", WithNumber),
                ("gradient_version", WithVersions), ("hold_gradients", WithNumber),
                ("held_versions", WithVersions), ("release_gradients", WithNumber), ("factors", RuleFactors)]


_HANDLE = c_void_p
_MADE = POINTER(c_void_p)
# Of each function its result and its arguments.
_FUNCTIONS = {
    "interface": (c_int,),
    "last_error": (c_char_p,),
    "last_exit_code": (c_int,),
    "job_open": (c_int, c_char_p, c_char_p, c_int, c_int, _MADE),
    "job_meet": (c_int, _HANDLE, _MADE, c_int64),
    "job_close": (c_int, _HANDLE),
    "job_forget_in_child": (None, _HANDLE),
    "ignore_stops_of_others": (None,),
    "job_place": (c_int, _HANDLE, POINTER(Place)),
    "job_request_stop": (c_int, _HANDLE),
    "job_request_checkpoint": (c_int, _HANDLE),
    "job_report": (c_int, _HANDLE, c_char_p, c_double, c_int64),
    "job_synchronize": (c_int, _HANDLE),
    "job_save_all": (c_int, _HANDLE, POINTER(c_int)),
    "job_busy": (None, _HANDLE, c_int),
    "log_open": (None,),
    "log_next": (c_int, POINTER(LogLine)),
    "log_close": (None,),
    "log_forget_in_child": (None,),
    "job_gather": (c_int, _HANDLE, c_char_p, c_int64, _MADE),
    "gathered_count": (c_int64, _HANDLE),
    "gathered_bytes": (c_void_p, _HANDLE, c_int64, POINTER(c_int64)),
    "gathered_close": (None, _HANDLE),
    "job_broadcast": (c_int, _HANDLE, c_void_p, c_int64),
    "epochs_open": (c_int, _HANDLE, c_int, _MADE, POINTER(c_int)),
    "epochs_next": (c_int, _HANDLE, POINTER(c_int)),
    "epochs_close": (c_int, _HANDLE),
    "sums_open": (c_int, _HANDLE, POINTER(SumsCalls), _MADE),
    "sums_close": (c_int, _HANDLE),
    "bytes_set": (None, _HANDLE, c_char_p, c_int64),
    "tensors_add": (None, _HANDLE, c_char_p, c_char_p, c_int64, POINTER(c_int64), c_void_p),
    "tensors_set_text": (None, _HANDLE, c_char_p),
    "tensors_text": (c_char_p, _HANDLE),
    "tensors_count": (c_int64, _HANDLE),
    "tensors_get": (None, _HANDLE, c_int64, POINTER(Tensor)),
    "tensors_place": (None, _HANDLE, c_int64, c_void_p),
    "state_open_bytes": (c_int, _HANDLE, c_char_p, c_int, POINTER(BytesCalls), _MADE),
    "state_open_tensors": (c_int, _HANDLE, c_char_p, POINTER(TensorsCalls), _MADE),
    "state_register": (c_int, _HANDLE, POINTER(c_int)),
    "state_close": (c_int, _HANDLE),
    "loader_open": (c_int, _HANDLE, POINTER(LoaderOptions), _MADE),
    "stream_open": (c_int, _HANDLE, POINTER(LoaderOptions), c_int64, POINTER(StreamCalls), _MADE),
    "loader_autoscale": (c_int, _HANDLE, c_int64, c_int64, c_int64, c_int),
    "loader_begin": (c_int, _HANDLE, POINTER(c_int)),
    "loader_next": (c_int, _HANDLE, POINTER(Batch)),
    "loader_read": (None, _HANDLE),
    "loader_peek": (c_int, _HANDLE, c_int64, POINTER(POINTER(c_int64)), POINTER(c_int64)),
    "loader_is_last": (c_int, _HANDLE, POINTER(c_int)),
    "loader_sizes": (c_int, _HANDLE, POINTER(Batch)),
    "loader_end": (c_int, _HANDLE),
    "loader_close": (c_int, _HANDLE),
    "sampler_indices":
        (c_int64, c_int64, c_int, c_uint64, c_int64, c_int64, c_int, c_int, POINTER(c_int64), c_int64),
    "model_make": (c_int, _HANDLE, POINTER(Shared), POINTER(ModelCalls), POINTER(ModelOptions), _MADE),
    "model_open": (c_int, _HANDLE),
    "model_close": (c_int, _HANDLE),
    "model_begin": (c_int, _HANDLE, POINTER(c_int)),
    "model_pass_gradient": (c_int, _HANDLE, c_int64, c_uint64, POINTER(c_int)),
    "model_ready": (c_int, _HANDLE, c_int64, c_uint64),
    "model_all_ready": (c_int, _HANDLE),
    "model_end": (c_int, _HANDLE),
    "model_abandon": (c_int, _HANDLE),
    "model_step": (c_int, _HANDLE, c_int64, c_int, POINTER(c_int)),
    "model_leave_out": (c_int, _HANDLE),
    "model_zero_grad": (c_int, _HANDLE),
    "model_accumulating": (c_int, _HANDLE),
    "model_statistics": (c_int, _HANDLE, POINTER(Statistics)),
    "model_raw_statistics": (c_int, _HANDLE, POINTER(c_double), POINTER(c_double)),
    "model_gain_at": (c_double, _HANDLE, c_double),
    "memory_of_slot": (c_void_p, _HANDLE, c_int64),
    "memory_close": (None, _HANDLE),
    "rule_factors": (c_int, c_int, c_double, c_int64, c_double, c_double, c_int64, POINTER(c_double),
                     POINTER(c_double), POINTER(c_double), c_int64),
}

LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libadaptdl_engine.so")


class _Engine:
    """The library's functions, without their prefix, as attributes. Opened when the first is asked for."""
    def __getattr__(self, name: str) -> Callable[..., Any]:
        self._open()
        return self.__dict__[name]

    def _open(self) -> None:
        try:
            library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise Error(
                f"the engine cannot be opened: {error}; install the package's wheel, or build the target "
                "adaptdl_python") from error
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(library, "adaptdl_" + name)
            function.restype = result
            function.argtypes = arguments
            self.__dict__[name] = function
        if self.interface() != INTERFACE:
            raise Error(f"{LIBRARY} is of another version of the package; install the package anew")


engine = _Engine()

# What callbacks raised, for whoever made the call.
_raised: List[BaseException] = []


def callback(prototype: Any, function: Callable[..., None]) -> Any:
    """`function` for the engine to call. What it raises comes out of the call that the engine is in."""
    def guarded(*arguments: Any) -> int:
        try:
            function(*arguments)
            return 0
        except BaseException as error:  # pylint: disable=broad-except
            _raised.append(error)
            return 1

    return prototype(guarded)


def fail(status: int) -> NoReturn:
    """Raises what the status of a call that failed means."""
    if status == CALLBACK and _raised:
        error = _raised[-1]
        _raised.clear()
        raise error
    if status == EXIT:
        raise SystemExit(engine.last_exit_code())
    raise Error(engine.last_error().decode())


def check(status: int) -> None:
    """Raises unless the call succeeded."""
    if status:
        fail(status)


def make(function: Callable[..., int], *arguments: Any) -> c_void_p:
    """Calls what opens something, and gives the handle."""
    handle = c_void_p()
    check(function(*arguments, ctypes.byref(handle)))
    return handle
