"""Elastic, goodput-optimised training, from Python. Importing starts no thread and opens nothing."""

__version__ = "0.1.0"
__all__ = ["Error", "__version__"]


class Error(RuntimeError):
    """The library was used wrongly, or something that it needs is not there; the text says what to do."""
