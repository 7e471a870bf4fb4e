"""A GradScaler that is the same on all replicas: its factor follows the steps of the job.

A step that came to nothing, because a replica was lost, is none: the loop's body runs again. One that others have
taken, and this replica could not, brings the scaler along as it is after it. Between the micro-batches of a step
there is nothing to be done.
"""

from typing import Any

from adaptdl import _job
from adaptdl._states import BytesState
from adaptdl.torch import _encoding
from adaptdl.torch._step import ModelStep


class SharedScaler:
    """The scaler as a state of checkpoints, and what its functions are to know of the job."""
    def __init__(self, job: _job.Job, name: str, scaler: Any) -> None:
        self._job = job
        self._name = name
        self._scaler = scaler
        # What it is without us.
        self._kind = type(scaler)
        self._step: Any = None
        # Whether update() is to follow step(); and whether it was made already, for somebody else to take over.
        self._due = self._made = False
        # Steps that were taken when another replica's next one was taken over.
        self._taken_over = -1
        self.state = BytesState(job, name, self._save, self._load, changes_with_steps=True)

    def follow(self, step: ModelStep) -> None:
        """From now on its functions go by what becomes of the model's steps."""
        self._step = step
        functions = {"__module__": self._kind.__module__}
        for own in (self.unscale_, self.step, self.update):
            functions[own.__name__] = lambda _, *args, own=own, **kwargs: own(*args, **kwargs)
        # By a class of its own, as those of PyTorch are found by their class.
        self._scaler.__class__ = type(self._kind.__name__, (self._kind, ), functions)

    def _save(self) -> bytes:
        if self._due:
            # Somebody takes the step over, for whom the update belongs to it.
            self._kind.update(self._scaler)
            self._due, self._made = False, True
        return _encoding.to_text(self._scaler.state_dict(), self._name).encode()

    def _load(self, data: bytes) -> None:
        self._scaler.load_state_dict(_encoding.from_text(data.decode()))
        if self.state.registered:
            self._taken_over = self._job.place().optimizer_steps

    def _is_idle(self) -> bool:
        """Whether gradients are not those of a step that is taken now."""
        if self._job.handle is None:
            return False
        return self._job.place().is_void or self._step.accumulating()

    # --- In place of its own ---

    def unscale_(self, *args: Any, **kwargs: Any) -> None:
        if not self._is_idle():
            self._kind.unscale_(self._scaler, *args, **kwargs)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if self._is_idle():
            return optimizer.step(*args, **kwargs)
        result = self._kind.step(self._scaler, optimizer, *args, **kwargs)
        self._due = not self._is_idle()
        return result

    def update(self, *args: Any, **kwargs: Any) -> None:
        if self._job.handle is not None:
            # Whether a step that the scaler has left out counts is known once the others have it, too.
            self._step.complete()
        was_made, self._due, self._made = self._made, False, False
        if self._is_idle() or self._was_taken_over():
            # To this value: nothing but the end of the step.
            self._kind.update(self._scaler, self._scaler.get_scale())
        elif not was_made or args or kwargs:
            self._kind.update(self._scaler, *args, **kwargs)

    def _was_taken_over(self) -> bool:
        return self._job.handle is not None and self._job.place().optimizer_steps == self._taken_over + 1
