"""Elastic, goodput-optimised training for PyTorch programs.

Programs written for AdaptDL run on this package unchanged: `adaptdl.torch` has the loader, the data-parallel
wrapper, the epochs and the accumulators, `adaptdl.checkpoint` states of one's own, `adaptdl.collective` what
replicas tell each other, and `adaptdl.env` who this replica is. The engine below is a shared library, which
comes with the package.

Importing starts no thread, installs no signal handler and opens nothing: a job begins with
`adaptdl.torch.init_process_group()`, or with the first use of what needs it.
"""

from adaptdl import _installed

__version__ = "0.1.0"
__all__ = ["Error", "__version__"]


class Error(RuntimeError):
    """The library was used wrongly, or something that it needs is not there; the text says what to do."""


_installed.warn_of_old_package()
