"""For pytest: AdaptDL's unit tests find what they import in our package.

`adaptdl.conftest` is AdaptDL's own, from its wheel: it forks replicas, and starts them again with other numbers. The rest are
names of AdaptDL's inside, by which tests reach what programs see by other names here. Nothing is passed over: whatever the
tests ask of it is computed by our package.
"""

import importlib.util
import os
import sys
import types

import fake_torchtext

import adaptdl.collective


def _load(name: str, path: str) -> None:
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)


class _Reducer:
    """The object behind AdaptDL's collective functions."""

    def __init__(self, rank: int, replicas: int, root_host: str, root_port: int) -> None:
        adaptdl.collective.initialize(root_host, root_port, rank, replicas)
        self.allreduce = adaptdl.collective.allreduce
        self.allreduce_async = adaptdl.collective.allreduce_async
        self.broadcast = adaptdl.collective.broadcast


def pytest_configure() -> None:
    """Before any test is imported."""
    fake_torchtext.install()
    reducer = types.ModuleType("adaptdl.reducer")
    setattr(reducer, "Reducer", _Reducer)
    sys.modules["adaptdl.reducer"] = reducer
    _load("adaptdl.conftest", os.path.join(os.environ["ADAPTDL_COMPAT_TESTS"], "conftest.py"))
