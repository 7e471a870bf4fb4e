"""How the learning rate follows the batch size.

A rule gives factors by which the learning rate of each parameter group is multiplied for one step; between
steps it stays what the program has set. A rule of one's own:

    class CubeRoot(ScalingRuleBase):
        def scale_lr(self, scale):
            return scale ** (1 / 3)

`scale` is the total batch size of the step by the initial one. All replicas use the same rule and get the
same numbers, so a rule must be a function of them alone.
"""

from ctypes import c_double
from typing import Any, Sequence, Union

from adaptdl import Error, _engine
from adaptdl._engine import check, engine
from adaptdl.torch.data import current_dataloader

__all__ = ["AdaScale", "AdamScale", "LEGWScale", "LinearScale", "ScalingRuleBase", "SqrtScale"]

Factors = Union[float, Sequence[float]]


class ScalingRuleBase:
    """The base of all rules. `adp` is the model that it is used with; `adp.gns` tells what is known of its
    gradients."""

    # How the engine knows it; a program's own rule is called.
    _rule = _engine.RULE_OWN
    _number = 0.0
    _samples = 0

    def __init__(self) -> None:
        self.adp: Any = None

    def initialize(self, adp: Any, optimizer: Any, patch_optimizer: bool = False) -> None:
        """Called once, with the model that it is used with."""
        self.adp = adp

    def scale_lr(self, scale: float) -> Factors:
        """One factor, or one for each parameter group."""
        raise NotImplementedError(f"{type(self).__name__} has no scale_lr()")


class _KnownRule(ScalingRuleBase):
    """A rule of the engine's."""
    def scale_lr(self, scale: float) -> Factors:
        """The factor of each parameter group, by what is known of the gradients now."""
        gns = self.adp.gns
        return self.factors(scale, gns.raw_sqr_avg, gns.raw_var_avg)

    def factors(self,
                scale: float,
                sqr: Sequence[float],
                var: Sequence[float],
                progress: float = 0.0,
                init_batch_size: int = 1) -> Sequence[float]:
        """The factor of each parameter group, by the estimates of its gradients at the initial batch size."""
        groups = len(sqr)
        doubles = c_double * groups
        made = doubles()
        check(
            engine.rule_factors(self._rule, self._number, self._samples, scale, progress, init_batch_size,
                                doubles(*sqr), doubles(*var), made, groups))
        return list(made)


class AdaScale(_KnownRule):
    """Each group's gain: for SGD."""
    _rule = _engine.RULE_ADASCALE


class AdamScale(_KnownRule):
    """The gain to the power `power`: for Adam and its kin, whose steps do not grow with the gradient."""
    _rule = _engine.RULE_ADAMSCALE

    def __init__(self, power: float = 0.5) -> None:
        super().__init__()
        self._number = power


class LinearScale(_KnownRule):
    """The scale itself."""
    _rule = _engine.RULE_LINEAR

    def scale_lr(self, scale: float) -> Factors:
        """The factor, which all parameter groups have."""
        return self.factors(scale, [1.0], [0.0])[0]


class SqrtScale(_KnownRule):
    """The scale's square root."""
    _rule = _engine.RULE_SQRT

    def scale_lr(self, scale: float) -> Factors:
        """The factor, which all parameter groups have."""
        return self.factors(scale, [1.0], [0.0])[0]


class LEGWScale(_KnownRule):
    """The square root, after a warm-up that grows with the scale. `base_warmup_epochs`: at the initial
    batch size; `data_size`: samples in an epoch."""
    _rule = _engine.RULE_LEGW

    def __init__(self, base_warmup_epochs: float, data_size: int) -> None:
        super().__init__()
        self._number = base_warmup_epochs
        self._samples = data_size

    def scale_lr(self, scale: float) -> Factors:
        """The factor, which all parameter groups have; within a data loader's loop, whose batch size it
        goes by."""
        loader = current_dataloader()
        if loader is None:
            raise Error("LEGWScale goes by the batch size of a data loader, and none is in a loop")
        return self.factors(scale, [1.0], [0.0], self.adp.gns.get_progress(), loader.batch_size)[0]
