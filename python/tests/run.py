#!/usr/bin/env python3
"""Runs tests of the package that lies in a folder: run.py PACKAGE MODULE... Exits with 77 (skipped)
without PyTorch."""

import os
import sys
import unittest

sys.path[:0] = [sys.argv[1], os.path.dirname(os.path.abspath(__file__))]
try:
    import torch  # noqa: F401
except ImportError as error:
    print(f"SKIPPED: {sys.executable} has no PyTorch ({error}); scripts/setup.sh installs one",
          file=sys.stderr)
    sys.exit(77)
unittest.main(module=None, argv=[sys.argv[0], *sys.argv[2:]])
