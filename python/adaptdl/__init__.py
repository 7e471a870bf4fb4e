"""Elastic, goodput-optimised training for PyTorch programs.

Programs written for AdaptDL run on this package unchanged: `adaptdl.torch` has the loader, the data-parallel wrapper, the
epochs and the accumulators, `adaptdl.checkpoint` states of one's own, `adaptdl.collective` what replicas tell each other,
`adaptdl.env` who this replica is, `adaptdl.report()` tells how the program is doing, `adaptdl.client` the jobs of a cluster, and
`adaptdl.goodput` the goodput model. The engine below is a shared library, which comes with the package.

Importing starts no thread, installs no signal handler and opens nothing: a job begins with
`adaptdl.torch.init_process_group()`, or with the first use of what needs it.
"""

from typing import TYPE_CHECKING, Any

from adaptdl import _installed

if TYPE_CHECKING:
    from adaptdl._metrics import report

__version__ = "0.1.0"
__all__ = ["Error", "__version__", "report"]


class Error(RuntimeError):
    """The library was used wrongly, or something that it needs is not there; the text says what to do."""


def __getattr__(name: str) -> Any:
    """What needs the engine is not there before it is asked for."""
    if name != "report":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from adaptdl import _metrics
    globals()[name] = _metrics.report
    return _metrics.report


_installed.warn_of_old_package()
