"""A scaler of the loss for jobs on CPUs: PyTorch's, or where that has none, one with its functions."""

import torch

GROWTH, BACKOFF, INTERVAL, BEGIN = 2.0, 0.25, 10, 1024.0


class Scaler:
    """As torch.amp.GradScaler, before PyTorch 2.3."""
    def __init__(self, enabled=True):
        self._enabled = enabled
        self._scale = BEGIN
        self._good = 0
        self._infinite = None
        self._stepped = False

    def is_enabled(self):
        return self._enabled

    def get_scale(self):
        return self._scale if self._enabled else 1.0

    def scale(self, loss):
        return loss * self._scale if self._enabled else loss

    def unscale_(self, optimizer):
        if not self._enabled:
            return
        assert self._infinite is None, "unscale_() has been called since the last update()"
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        assert gradients, "no gradient was looked at"
        for gradient in gradients:
            gradient /= self._scale
        self._infinite = not all(bool(torch.isfinite(gradient).all()) for gradient in gradients)

    def step(self, optimizer):
        if not self._enabled:
            return optimizer.step()
        assert not self._stepped, "step() has been called since the last update()"
        if self._infinite is None:
            self.unscale_(optimizer)
        self._stepped = True
        return None if self._infinite else optimizer.step()

    def update(self, new_scale=None):
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        else:
            assert self._infinite is not None, "no gradient was looked at since the last update()"
            self._good = 0 if self._infinite else self._good + 1
            if self._infinite:
                self._scale *= BACKOFF
            elif self._good == INTERVAL:
                self._scale, self._good = self._scale * GROWTH, 0
        self._infinite, self._stepped = None, False

    def state_dict(self):
        return {"scale": self._scale, "_growth_tracker": self._good} if self._enabled else {}

    def load_state_dict(self, state):
        self._scale, self._good = state["scale"], state["_growth_tracker"]


def make_scaler(enabled=True):
    """PyTorch's own, if it works on CPUs."""
    if not hasattr(torch.amp, "GradScaler"):
        return Scaler(enabled)
    return torch.amp.GradScaler("cpu", init_scale=BEGIN, growth_factor=GROWTH, backoff_factor=BACKOFF,
                                growth_interval=INTERVAL, enabled=enabled)


def overflows(step):
    """Steps whose gradients are to overflow."""
    return step % 25 == 7


def state_after(steps):
    """What the factor is after so many steps of one process, and how many since it last changed."""
    scale, good = BEGIN, 0
    for step in range(steps):
        good = 0 if overflows(step) else good + 1
        if overflows(step):
            scale *= BACKOFF
        elif good == INTERVAL:
            scale, good = scale * GROWTH, 0
    return scale, good
