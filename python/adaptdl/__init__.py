"""Elastic, goodput-optimised training for PyTorch programs.

Programs written for AdaptDL run on this package unchanged: `adaptdl.torch` has the loader, the data-parallel wrapper, the
epochs and the accumulators, `adaptdl.checkpoint` states of one's own, `adaptdl.collective` what replicas tell each other,
`adaptdl.env` who this replica is, `adaptdl.report()` tells how the program is doing, `adaptdl.client` the jobs of a cluster, and
`adaptdl.goodput` the goodput model. The engine below is a shared library, which comes with the package.

Importing starts no thread, installs no signal handler and opens nothing: a job begins with
`adaptdl.torch.init_process_group()`, or with the first use of what needs it.
"""

from typing import Any, Optional

from adaptdl import _installed

__version__ = "0.1.0"
__all__ = ["Error", "__version__", "report"]


class Error(RuntimeError):
    """The library was used wrongly, or something that it needs is not there; the text says what to do."""


def report(step: Optional[int] = None, **metrics: Any) -> None:
    """Tells whoever looks at the job how the program is doing: `adaptdl.report(loss=0.25, accuracy=0.9)`.

    Of each name the latest value is told, now and then, so that a step costs nothing that could be measured.
    Rank 0's values count; where replicas differ, sum up over them first (`adaptdl.torch.Accumulator`). Values
    are numbers, which need not be finite. "loss" is what is minimised.

    Names are 1 to 64 letters, digits and any of "_./-", beginning with a letter, at most 16 of them; what is
    beyond that is left aside, and logged once. `step`: what the values are of, as the program counts; else it
    is the optimiser steps that are done. From any thread, once the replicas have met.
    """
    from adaptdl import _metrics
    _metrics.report(step, metrics)


_installed.warn_of_old_package()
