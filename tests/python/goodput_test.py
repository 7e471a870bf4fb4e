"""adaptdl.goodput against what AdaptDL computed (tests/vectors).  goodput_test.py BUILD_FOLDER"""

import json
import pathlib
import sys
import threading
import unittest

BUILD = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(BUILD / "python"))

import numpy as np  # noqa: E402

from adaptdl import goodput  # noqa: E402
from adaptdl.goodput import GoodputFunction, GradParams, PerfParams, fit_perf_params  # noqa: E402

VECTORS = pathlib.Path(__file__).resolve().parents[1] / "vectors"


def vectors(name):
    cases = json.loads((VECTORS / name).read_text())
    assert cases
    return cases


def perf_of(value):
    return PerfParams(**value) if isinstance(value, dict) else PerfParams(*value)


def grad_of(value):
    return GradParams(**value) if isinstance(value, dict) else GradParams(*value)


def function_of(case):
    return GoodputFunction(
        perf_of(case["perf_params"]), grad_of(case["grad_params"]), case["init_batch_size"]
    )


def limits_of(case):
    return {name: case[name] for name in ("max_batch_size", "atomic_bsz_range", "accumulation")}


class VectorsTest(unittest.TestCase):
    def close(self, actual, expected, relative=1e-12):
        np.testing.assert_allclose(actual, expected, rtol=relative, atol=0)

    def test_evaluates_as_the_reference(self):
        points = 0
        for case in vectors("goodput_evaluate.json")["cases"]:
            with self.subTest(case["name"]):
                function = function_of(case)
                place = [np.array(case[name]) for name in ("num_nodes", "num_replicas")]
                batch = [np.array(case[name]) for name in ("atomic_bsz", "accum_steps")]
                accum, network, optim = goodput._predict_times(perf_of(case["perf_params"]), *place, batch[0])
                self.close(accum, case["accum_time"])
                self.close(network, case["network_time"])
                self.close(np.log(optim), case["log_optim_time"], 1e-9)
                self.close(function.throughput(*place, *batch), case["throughput"])
                self.close(function.efficiency(place[1] * batch[0] * (batch[1] + 1)), case["efficiency"])
                self.close(function(*place, *batch), case["goodput"])
                points += len(place[0])
        self.assertGreater(points, 400)

    def test_chooses_the_batch_size_as_the_reference(self):
        for case in vectors("goodput_optimize.json")["cases"]:
            with self.subTest(case["name"] + " " + case["topology"]):
                value, atomic, steps = function_of(case).optimize(
                    np.array(case["num_nodes"]), np.array(case["num_replicas"]), **limits_of(case)
                )
                self.close(value, case["master"]["goodput"])
                np.testing.assert_array_equal(atomic, case["master"]["atomic_bsz"])
                np.testing.assert_array_equal(steps, case["master"]["accum_steps"])

    def test_numbers_give_numbers(self):
        for case in vectors("goodput_optimize_scalar.json")["scalar_cases"]:
            value, atomic, steps = function_of(case).optimize(
                case["num_nodes"], case["num_replicas"], **limits_of(case)
            )
            self.assertEqual(np.ndim(value), 0)
            self.close(value, case["goodput"])
            self.assertEqual((atomic, steps), (case["atomic_bsz"], case["accum_steps"]))

    def test_speedups_are_those_of_the_reference(self):
        for case in vectors("speedup.json")["cases"]:
            function = function_of(case)
            base = function.optimize(1, 1, **limits_of(case))[0]
            self.close(base, case["base_goodput"])
            value, _, _ = function.optimize(case["num_nodes"], case["num_replicas"], **limits_of(case))
            self.close(value / base, case["speedup"])

    def test_fits_no_worse_than_the_reference(self):
        for case in vectors("fit_perf_params.json")["cases"]:
            with self.subTest(case["name"]):
                measured = [
                    case[name]
                    for name in (
                        "num_nodes",
                        "num_replicas",
                        "atomic_bsz",
                        "accum_step_time",
                        "optim_step_time",
                    )
                ]
                fitted = fit_perf_params(*measured)
                self.assertIsInstance(fitted, PerfParams)
                reference = goodput._obj_fn(case["fitted"], *measured)
                self.close(reference, case["obj_at_fitted"], 1e-9)
                self.assertLessEqual(goodput._obj_fn(fitted, *measured), reference * (1 + 1e-6) + 1e-7)

    def test_the_loss_is_that_of_the_reference(self):
        exact = vectors("fit_perf_params.json")["objective_gradient"]
        measured = [
            exact[name]
            for name in ("num_nodes", "num_replicas", "atomic_bsz", "accum_step_time", "optim_step_time")
        ]
        for point in exact["points"]:
            self.close(goodput._obj_fn(point["params"], *measured), point["objective"], 1e-9)


class ArgumentsTest(unittest.TestCase):
    def setUp(self):
        self.function = GoodputFunction(
            (0.121, 0.00568, 0.0236, 0.00634, 0.0118, 0.00317, 1.14), (0.00136, 0.000502), 128
        )

    def test_shapes_are_those_of_numpy(self):
        replicas = np.array([[1], [2], [4]])
        sizes = np.array([128, 256])
        self.assertEqual(self.function.evaluate(1, replicas, sizes, 0).shape, (3, 2))
        value, atomic, steps = self.function.optimize(1, [1, 2, 3])
        self.assertEqual((value.shape, atomic.shape, steps.shape), ((3,), (3,), (3,)))
        self.assertEqual(self.function.evaluate(1, np.array([], dtype=int), 128, 0).shape, (0,))
        # Strided, and of other types.
        self.assertEqual(
            self.function.throughput(np.int8(1), np.arange(1, 9)[::2], np.float32(64), 0).shape, (4,)
        )

    def test_what_the_model_cannot_take_is_named(self):
        cases = [
            ("smaller than the initial one", lambda: self.function.evaluate(1, 1, 64, 0)),
            ("num_nodes\\[0\\] is 0", lambda: self.function.throughput(0, 1, 128, 0)),
            ("num_replicas\\[1\\] is 1", lambda: self.function.optimize([1, 2], [1, 1])),
            ("accum_steps\\[0\\] is -1", lambda: self.function.throughput(1, 1, 128, -1)),
            ("no whole number", lambda: self.function.throughput(1, 1, 128.5, 0)),
            ("no whole number", lambda: self.function.throughput(1, 1, "128", 0)),
            ("batch_size\\[0\\] is nan", lambda: self.function.efficiency(float("nan"))),
            ("max_batch_size", lambda: self.function.optimize(1, 1, max_batch_size=64)),
            ("gamma", lambda: GoodputFunction((1, 1, 1, 1, 1, 1, 11), (1, 1), 128).throughput(1, 1, 128, 0)),
            (
                "init_batch_size is 0",
                lambda: GoodputFunction((1, 1, 1, 1, 1, 1, 1), (1, 1), 0).throughput(1, 1, 1, 0),
            ),
            ("accum_time", lambda: fit_perf_params([1], [1], [64], [-1.0], [1.0])),
            ("measurement", lambda: fit_perf_params([], [], [], [], [])),
        ]
        for text, call in cases:
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                call()

    def test_threads_get_the_same_answers(self):
        expected = self.function.optimize(np.arange(1, 33), np.arange(1, 33))[0]
        differences = []

        def work():
            for _ in range(20):
                differences.append(
                    np.abs(self.function.optimize(np.arange(1, 33), np.arange(1, 33))[0] - expected).max()
                )

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(differences), max(differences)), (80, 0))


if __name__ == "__main__":
    unittest.main()
