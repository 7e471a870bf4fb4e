"""The steps of one model: what its backward passes and its optimiser tell the engine, and what the engine has
done to them.

With one replica, and a step that is one backward pass, there are no hooks on parameters: gradients are
handed over when backward() ends, and only in steps in which the engine measures something of them. In the
others the optimiser just takes its step, and the engine learns of it when the loop goes on. With
several replicas each gradient is handed over as it is ready, so that it travels while the backward pass
goes on. Where a step is several micro-batches the gradient of each is looked at before it is added to the
others.
"""

import ctypes
import functools
import types
from ctypes import c_int
from typing import Any, Callable, List, Optional

import torch
from torch.autograd import Variable

from adaptdl import Error, _job
from adaptdl._engine import (LOOKS_AT_PASS, PASS_BEGINS, PASS_ENDS, PASS_IS_OVER, STEP_IS_PLAIN, STEP_TAKEN,
                             Batch, ModelCalls, ModelOptions, Nothing, RuleFactors, WithFactors, WithNumber, WithVersions,
                             callback, check, engine, fail, make)
from adaptdl.torch import _devices
from adaptdl.torch._tensors import SharedTensors
from adaptdl.torch.scaling_rules import ScalingRuleBase

# What is hooked: nothing; each gradient that is ready; and each one of a pass before it is added.
_GATHER, _READY, _LOOK = range(3)


class ModelStep:
    """See the top of this module. Best made before the replicas meet, and opened once what the model is restored
    from is registered."""
    def __init__(self, job: _job.Job, name: str, module: torch.nn.Module, optimizer: torch.optim.Optimizer,
                 tensors: SharedTensors, scaler: Any, rule: ScalingRuleBase, bucket_bytes: int,
                 statistics_period: int) -> None:
        self._job = job
        self._module = module
        self._optimizer = optimizer
        self._tensors = tensors
        self._scaler = scaler
        self._rule = rule
        self.num_groups = tensors.num_groups
        # The micro-batch in progress.
        self.init_batch_size = 1
        self.batch = Batch(micro_batches=1, local_batch_size=1, replicas=1)
        # How gradients are handed over in it, and the hooks for that.
        self._mode = _GATHER
        self._handles: List[Any] = []
        self._nodes: List[Any] = []
        # The backward pass: whether its end will be told, whether it has begun, and parameters that are
        # complete.
        self._awaits_end = False
        self._in_pass = False
        self._looks = c_int()
        self._looks_reference = ctypes.byref(self._looks)
        self._seen = bytearray(len(tensors.parameters))
        # Whether all gradients of the step were handed over.
        self._handed_over = False
        # The optimiser's own functions.
        self._step = optimizer.step
        self._zero_grad = optimizer.zero_grad
        self._careful_zero_grad = types.MethodType(self._patched_zero_grad(), optimizer)
        self._result: Any = None
        self._arguments: Any = ((), {})
        self._calls = self._make_calls()
        options = ModelOptions(name.encode(), bucket_bytes, 1, statistics_period, int(_is_adam(optimizer)),
                               int(scaler is not None), rule._rule, rule._number, rule._samples,
                               self._count_parameters(), _devices.index_of(tensors.device))
        self._made = make(
            functools.partial(engine.model_make, job.handle, ctypes.byref(tensors.shared),
                              ctypes.byref(self._calls), ctypes.byref(options)))
        # Once it is open.
        self.handle: Any = None

    def open(self) -> None:
        """From now on the optimiser's steps are the job's."""
        check(engine.model_open(self._made))
        self.handle = self._tensors.handle = self._made
        self._optimizer.step = types.MethodType(self._patched_step(), self._optimizer)
        self._job.models.append(self)
        self._job.at_close(self.close)
        self._choose_mode(self._job.place().replicas, 1)

    def close(self) -> None:
        """Gives the optimiser its functions back, and the parameters theirs."""
        if self.handle is None:
            return
        self._unhook()
        handle, self.handle = self.handle, None
        if self in self._job.models:
            self._job.models.remove(self)
        engine.model_close(handle)
        # That of the class, or what somebody else has put there before.
        self._optimizer.step = self._step

    def _make_calls(self) -> ModelCalls:
        tensors = self._tensors
        return ModelCalls(callback(WithFactors, self._take_step), callback(Nothing, tensors.take_moments),
                          callback(WithNumber,
                                   tensors.make_gradient), callback(WithVersions, tensors.version),
                          callback(WithNumber, tensors.hold), callback(WithVersions, tensors.held_versions),
                          callback(WithNumber, tensors.release), callback(RuleFactors, self._own_factors))

    def _count_parameters(self) -> int:
        return sum(len(group["params"]) for group in self._optimizer.param_groups)

    def _own_factors(self, scale: float, progress: float, init_batch_size: int, sqr: Any, var: Any,
                     factors: Any, groups: int) -> None:
        made = self._rule.scale_lr(scale)
        for group in range(groups):
            factors[group] = float(made[group] if hasattr(made, "__getitem__") else made)

    def is_exchanging(self) -> bool:
        """Whether gradients travel: within a backward pass, with several replicas."""
        return self._in_pass and self._mode != _GATHER

    # --- The loop ---

    def complete(self) -> None:
        """The loop goes on to its next micro-batch, or a scaler to its next factor: a step that the program
        has left out, because of an overflow, is complete."""
        if not self._handed_over and not self._in_pass:
            return
        if self._in_pass and self._mode == _GATHER:
            self._in_pass = False
            if self._scaler is None:
                # The model was called, and nothing came of it.
                check(engine.model_abandon(self.handle))
                return
            check(engine.model_end(self.handle))
        self._handed_over = False
        check(engine.model_leave_out(self.handle))
        self._tensors.apply_changes()

    def after_next(self, batch: Batch, init_batch_size: int) -> None:
        """A micro-batch begins."""
        # The group may have changed, and dropped gradients.
        self._tensors.apply_changes()
        self.init_batch_size = init_batch_size
        self.batch = batch
        self._choose_mode(batch.replicas, batch.micro_batches)

    def _choose_mode(self, replicas: int, micro_batches: int) -> None:
        if micro_batches > 1:
            mode = _LOOK
        else:
            mode = _GATHER if replicas == 1 else _READY
        if mode != self._mode:
            self._unhook()
            self._mode = mode
            if mode != _GATHER:
                self._hook()
            if mode == _LOOK:
                self._optimizer.zero_grad = self._careful_zero_grad

    # --- Hooks ---

    def _hook(self) -> None:
        for i, parameter in enumerate(self._tensors.parameters):
            # Only what requires gradients takes hooks; what is frozen keeps them, for when it does not stay
            # so.
            frozen = not parameter.requires_grad
            if frozen:
                parameter.requires_grad_(True)
            self._hook_parameter(i, parameter)
            if frozen:
                parameter.requires_grad_(False)

    def _hook_parameter(self, i: int, parameter: torch.nn.Parameter) -> None:
        if self._mode == _LOOK:
            self._handles.append(parameter.register_hook(functools.partial(self._on_pass_gradient, i)))
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            self._handles.append(
                parameter.register_post_accumulate_grad_hook(lambda ready, i=i: self._on_ready(i, ready)))
            return
        # Lives only as long as somebody holds on to it.
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        self._nodes.append(node)
        self._handles.append(node.register_hook(lambda *_, i=i, ready=parameter: self._on_ready(i, ready)))

    def _unhook(self) -> None:
        if self._mode == _LOOK:
            self._optimizer.zero_grad = self._zero_grad
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._nodes.clear()

    def watch(self, output: Any) -> None:
        """The model's output: its gradient tells that a backward pass begins, in the graph whose end
        counts; a graph within that, as gradient checkpointing has it, does not."""
        self._awaits_end = False
        if self._mode == _GATHER:
            if self._in_pass or self._handed_over:
                return
            # A scaler may leave the step out, and step() would not be called.
            if not self._tensors.may_look.value and self._scaler is None:
                return
            self._begin_gathering()
            if not self._looks.value:
                return
        for tensor in _tensors_of(output):
            if tensor.requires_grad:
                tensor.register_hook(self._on_output_gradient)

    def _on_output_gradient(self, _: torch.Tensor) -> None:
        if not self._awaits_end and self.handle is not None:
            self._awaits_end = True
            Variable._execution_engine.queue_callback(self._on_backward_end)

    def _begin_gathering(self) -> None:
        self._tensors.follow_stream()
        self._tensors.follow_frozen()
        self._take_loss_scale()
        status = engine.model_begin(self.handle, self._looks_reference)
        if status:
            fail(status)
        self._in_pass = True

    def _has_gradients(self) -> bool:
        return any(parameter.grad is not None for parameter in self._tensors.parameters)

    def _begin_pass(self) -> None:
        self._describe()
        check(engine.model_begin(self.handle, self._looks_reference))
        self._tensors.apply_changes()
        self._in_pass = True
        self._seen = bytearray(len(self._seen))
        if not self._awaits_end:
            self._awaits_end = True
            Variable._execution_engine.queue_callback(self._on_backward_end)

    def _describe(self) -> None:
        """What the engine is to know of a pass before it begins."""
        self._tensors.follow_stream()
        self._tensors.follow_frozen()
        self._tensors.place_buffers()
        self._take_loss_scale()

    def _take_loss_scale(self) -> None:
        if self._scaler is not None:
            self._tensors.loss_scale.value = float(self._scaler.get_scale())

    def _on_pass_gradient(self, i: int, gradient: torch.Tensor) -> Optional[torch.Tensor]:
        if self.handle is None:
            return None
        with torch.no_grad():
            if not self._in_pass:
                self._begin_pass()
            # A sparse one is refused when it is complete.
            if not self._looks.value & LOOKS_AT_PASS or gradient.layout is not torch.strided:
                return None
            counts = c_int()
            address = self._tensors.address(i, gradient, False)
            check(engine.model_pass_gradient(self.handle, i, address, ctypes.byref(counts)))
            return None if counts.value else torch.zeros_like(gradient)

    def _on_ready(self, i: int, parameter: torch.nn.Parameter) -> None:
        if self.handle is None:
            return
        with torch.no_grad():
            if not self._in_pass:
                self._begin_pass()
            self._tensors.follow_stream()
            if self._seen[i]:
                raise Error(
                    f"the parameter of shape {tuple(parameter.shape)} got gradients from two graphs of one backward pass, as "
                    "one has that is used in several segments of reentrant gradient checkpointing: use use_reentrant=False"
                )
            self._seen[i] = 1
            status = engine.model_ready(self.handle, i, self._tensors.address(i, parameter.grad, True))
            if status:
                fail(status)

    def _on_backward_end(self) -> None:
        self._awaits_end = False
        if self.handle is None:
            return
        if not self._in_pass:
            return
        if self._mode == _GATHER:
            # Not so after torch.autograd.grad(), for one.
            if not self._has_gradients():
                return
            self._hand_over_all()
        self._tensors.follow_stream()
        with torch.no_grad():
            self._in_pass = False
            check(engine.model_end(self.handle))
            self._tensors.store_buffers()
            self._tensors.apply_changes()
        self._handed_over = True

    def _hand_over_all(self) -> None:
        self._tensors.gather()
        check(engine.model_all_ready(self.handle))

    # --- The optimiser ---

    def _patched_step(self) -> Callable[..., Any]:
        own, own_step, told = self, self._step, self._tensors.step

        def step(_: torch.optim.Optimizer,
                 closure: Optional[Callable[[], Any]] = None,
                 *args: Any,
                 **kwargs: Any) -> Any:
            if told.value == STEP_IS_PLAIN and closure is None:
                result = own_step(*args, **kwargs)
                told.value = STEP_TAKEN
                return result
            return own.step(closure, *args, **kwargs)

        # Schedulers of the learning rate leave a mark there, and look for it.
        step.__dict__.update(getattr(self._step, "__dict__", {}))
        step.__dict__.update(getattr(getattr(self._step, "__func__", None), "__dict__", {}))
        return step

    def _patched_zero_grad(self) -> Callable[..., Any]:
        own = self

        def zero_grad(_: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
            if not own.accumulating():
                own._zero_grad(*args, **kwargs)

        return zero_grad

    def accumulating(self) -> bool:
        """Whether gradients are to stay, between the micro-batches of a step."""
        return self._mode == _LOOK and self.handle is not None and bool(engine.model_accumulating(
            self.handle))

    def step(self, closure: Optional[Callable[[], Any]], *args: Any, **kwargs: Any) -> Any:
        """In place of the optimiser's: takes its step, once the replicas have agreed on the gradients;
        does nothing after the other micro-batches of a step."""
        if self.handle is None:
            return self._step(closure, *args, **kwargs) if closure is not None else self._step(
                *args, **kwargs)
        result = None
        if closure is not None:
            if isinstance(self._optimizer, torch.optim.LBFGS):
                raise Error(
                    "LBFGS computes the loss several times in a step, which is not one step of all replicas: use "
                    "another optimiser")
            with torch.enable_grad():
                result = closure()
        if self._handed_over:
            passed = PASS_IS_OVER
        elif self._mode != _GATHER:
            # There was no backward pass here: the others may have had one.
            self._describe()
            passed = PASS_IS_OVER
        elif self._in_pass:
            passed = PASS_ENDS
            if self._looks.value:
                self._hand_over_all()
        else:
            passed = PASS_BEGINS
        self._in_pass = self._handed_over = False
        self._arguments = (args, kwargs)
        self._result = None
        self._take(passed)
        if passed == PASS_BEGINS and self._looks.value:
            # It looks all the same: the program has not called the model by its wrapper, say.
            self._tensors.apply_changes()
            self._hand_over_all()
            self._take(PASS_ENDS)
        self._tensors.apply_changes()
        return result if closure is not None else self._result

    def _take(self, passed: int) -> None:
        self._tensors.follow_stream()
        if passed == PASS_BEGINS and self._tensors.may_look.value:
            self._tensors.follow_frozen()
        status = engine.model_step(self.handle, self._count_parameters(), passed, self._looks_reference)
        if status:
            fail(status)

    def _take_step(self, factors: Any, groups: int) -> None:
        if self._mode != _GATHER:
            # Without a backward pass here, the averages have come just now.
            self._tensors.store_buffers()
            self._tensors.apply_changes()
        args, kwargs = self._arguments
        changed = [group for group in range(groups) if factors[group] != 1.0]
        rates = []
        for group in changed:
            options = self._optimizer.param_groups[group]
            if "lr" not in options:
                raise Error(
                    "the optimiser's parameter groups have no \"lr\" that could follow the batch size")
            rates.append(options["lr"])
            options["lr"] = options["lr"] * factors[group]
        try:
            self._result = self._step(*args, **kwargs)
        finally:
            for group, rate in zip(changed, rates):
                self._optimizer.param_groups[group]["lr"] = rate


def _is_adam(optimizer: torch.optim.Optimizer) -> bool:
    return isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW))


def _tensors_of(value: Any) -> List[torch.Tensor]:
    """All tensors in an output, however it is put together."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif hasattr(value, "__dataclass_fields__"):
        value = vars(value).values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [tensor for item in value for tensor in _tensors_of(item)]
