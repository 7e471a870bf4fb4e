#!/usr/bin/env python3
"""Runs AdaptDL's own unit tests, as they lie in its wheel, against this package.

    adaptdl_tests.py PACKAGE WHEEL [PYTEST ARGUMENT...]

PACKAGE is a folder with this package, WHEEL one with AdaptDL's. The tests are put into a temporary folder
beside links to this package. What is left out is listed below, with its reason.
"""

import os
import shutil
import sys
import tempfile

TESTS = [
    "checkpoint_test.py", "collective_test.py", "torch/accumulator_test.py", "torch/data_test.py",
    "torch/epoch_test.py", "torch/parallel_test.py", "torch/scaling_rules_test.py"
]

LEFT_OUT = {
    "reducer_test.py": "of AdaptDL's inside: its reducer, which speaks pickle to everybody",
    "torch/_metrics_test.py": "of AdaptDL's inside: its table of step times; here the engine has one",
    "torch/gradient_noise_scale_test.py":
        "of AdaptDL's inside: sets the fields of an estimator without a model; here the engine "
        "estimates, and tests/vectors compares the results",
    "goodput_test.py": "of adaptdl.goodput, which is not in this package yet",
    "fit_test.py": "the same",
    "torch/data_test.py::test_dataloader_restarts":
        "asks for batches of 12 where 10 were asked for: here the total stays what "
        "it is, and shares differ",
    "torch/data_test.py::test_bptt_iterator": "needs torchtext's data sets, which torchtext has given up",
    "torch/scaling_rules_test.py::test_optimization_1": "makes an estimator without a model, of AdaptDL's inside",
    "torch/scaling_rules_test.py::test_optimization_2": "the same",
    "torch/scaling_rules_test.py::test_optimization_3": "the same",
    "torch/scaling_rules_test.py::test_gradient_accumulation_optimization_1": "the same",
    "torch/scaling_rules_test.py::test_gradient_accumulation_optimization_2": "the same",
}

# What these tests import and do not use here.
STUBS = {
    "torchtext/__init__.py": "",
    "torchtext/data/__init__.py": "",
    "torchtext/data/utils.py": "get_tokenizer = None\n",
}


def link_package(package, to):
    """Links to all modules, so that other files may lie beside them."""
    for name in os.listdir(package):
        path = os.path.join(package, name)
        if name == "__pycache__":
            continue
        if name == "torch":
            os.makedirs(os.path.join(to, name))
            link_package(path, os.path.join(to, name))
        else:
            os.symlink(os.path.realpath(path), os.path.join(to, name))


def main():
    import pytest
    package, wheel = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    folder = tempfile.mkdtemp()
    root = os.path.join(folder, "adaptdl")
    os.makedirs(root)
    link_package(os.path.join(package, "adaptdl"), root)
    for name in ["conftest.py", *TESTS]:
        shutil.copy(os.path.join(wheel, "adaptdl", name), os.path.join(root, name))
    for name, text in STUBS.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    # What is imported from there only, for data_test.py's last test.
    with open(os.path.join(root, "torch", "iterator.py"), "w", encoding="ascii") as file:
        file.write("AdaptiveBPTTIterator = None\n")
    os.environ["PYTHONPATH"] = folder
    sys.path.insert(0, folder)
    import adaptdl._engine  # of this package, or there is nothing to be tested
    assert adaptdl.__file__.startswith(folder), adaptdl.__file__
    deselected = [f"--deselect=adaptdl/{name}" for name in LEFT_OUT if "::" in name]
    os.chdir(folder)
    code = pytest.main([
        "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", "--import-mode=importlib", "-W", "ignore",
        *deselected, *sys.argv[3:], *(f"adaptdl/{name}" for name in TESTS)
    ])
    for name, reason in LEFT_OUT.items():
        print(f"left out: {name}: {reason}")
    shutil.rmtree(folder)
    sys.exit(code)


if __name__ == "__main__":
    main()
