"""adaptdl.tune without a cluster: files, spaces, rungs, proposals, and the loop against a cluster in memory."""

import json
import math
import os
import pathlib
import tempfile
import types
import unittest
from unittest import mock

from adaptdl.client import LimitReachedError
from adaptdl.client import _protocol
from adaptdl.tune import concurrency, outlook, rungs, search_file, study, table, trials, tuner
from tune_cluster import FILE, Cluster, good, node, search_of


class FileTest(unittest.TestCase):
    def refused(self, pattern, **changes):
        with self.assertRaisesRegex(search_file.SearchFileError, pattern):
            search_of(**changes)

    def test_all_of_a_file(self):
        search = search_of(algorithm={"name": "cmaes", "seed": 4}, early_stopping={"progress": "steps", "first": 10},
                           at_once=2, job={"cpus": 1, "max_replicas": 2})
        self.assertEqual([one.name for one in search.space.parameters], ["lr", "optimizer", "layers", "beta"])
        self.assertEqual(search.space.parameters[0].low, 1e-4)
        self.assertEqual((search.algorithm, search.seed, search.progress, search.first_rung, search.factor),
                         ("cmaes", 4, "steps", 10, 3))

    def test_what_is_wrong_is_named_with_its_value_and_the_remedy(self):
        self.refused(r"nam is 'x': there is no such field; there are name", nam="x")
        self.refused(r"name is 'A': give at most 52 lower-case", name="A")
        self.refused(r"command is None: give words", command=None)
        self.refused(r"metric.direction is 'up': give minimize or maximize", metric={"name": "a", "direction": "up"})
        self.refused(r"budget is None: say when the search ends", budget=None)
        self.refused(r"budget.trials is 0: give a whole number", budget={"trials": 0})
        self.refused(r"algorithm is 'best': give one of tpe", algorithm="best")
        self.refused(r"a grid has at most 10000 points", algorithm="grid")
        self.refused(r"job.cpus is '1': give a float", job={"cpus": "1"})
        self.refused(r"job.env is \{'A': 1\}: values are texts", job={"env": {"A": 1}})
        self.refused(r"metric.log is '\(': it is no regular expression",
                     metric={"name": "a", "direction": "minimize", "log": "("})
        self.refused(r"early_stopping needs to know how far",
                     metric={"name": "a", "direction": "minimize", "log": "a=(.*)"}, early_stopping={})

    def test_wrong_parameters(self):
        for text, pattern in (
                ({}, "parameters is {}"), ({"a b": {"int": [1, 2]}}, "parameters is 'a b'"),
                ({"a": {"int": [1, 2], "choice": [1]}}, "give one of uniform"),
                ({"a": {"log_uniform": [0, 1]}}, "begins above 0"), ({"a": {"uniform": [2, 1]}}, "lowest value comes first"),
                ({"a": {"uniform": [0, math.inf]}}, "lowest and the highest"), ({"a": {"int": [1, 2.5]}}, "whole numbers"),
                ({"a": {"choice": [1, 1]}}, "each once"), ({"a": {"choice": []}}, "each once"),
                ({"a": {"int": [1, 2], "when": {"b": 1}}}, "there is no such parameter"),
                ({"a": {"int": [1, 2]}, "b": {"int": [1, 2], "when": {"a": 7}}}, "never has such a value"),
                ({"a": {"int": [1, 2], "when": {"b": 1}}, "b": {"int": [1, 2], "when": {"a": 1}}}, "circle")):
            self.refused(pattern, parameters=text)

    def test_all_problems_at_once(self):
        with self.assertRaises(search_file.SearchFileError) as caught:
            search_of(name=3, budget={}, at_once=-1)
        self.assertEqual(len(str(caught.exception).splitlines()), 3)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "search.yaml")
            for text, pattern in (("a: [", "is no YAML"), ("a: &b [1]\nc: *b\n", "anchors"), ("", "give name"),
                                  ("- 1", "give a mapping")):
                path.write_text(text)
                with self.assertRaisesRegex(search_file.SearchFileError, pattern):
                    search_file.load(str(path))
            with self.assertRaisesRegex(search_file.SearchFileError, "can't be read"):
                search_file.load(folder + "/none")
            path.write_text(json.dumps({**FILE, "job": {"folder": "code"}}))
            self.assertEqual(search_file.load(str(path)).job["folder"], str(pathlib.Path(folder).resolve() / "code"))


    def test_the_example(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        search = search_file.load(str(root / "examples/python-mnist/search.yaml"))
        self.assertEqual(search.job["folder"], str(root / "examples/python-mnist"))
        program = (root / "examples/python-mnist/mnist.py").read_text()
        for word in search.command:
            if word.startswith("--"):
                self.assertIn(f'"{word.split("=")[0]}"', program)


class CommandTest(unittest.TestCase):
    def test_values_reach_the_command(self):
        names = ["lr", "beta"]
        words = ["train", "--lr={lr}", "--beta={beta}", "{other}", "${HOME}"]
        self.assertEqual(trials.fill(words, {"lr": 1e-05}, names), ["train", "--lr=1e-05", "{other}", "${HOME}"])
        self.assertEqual(trials.fill("train {lr} {beta} ${x}", {"lr": "a; rm"}, names), "train 'a; rm'  ${x}")

    def test_a_value_is_no_template(self):
        self.assertEqual(trials.fill(["{lr}"], {"lr": "{beta}", "beta": 1}, ["lr", "beta"]), ["{beta}"])

    def test_programs_get_them(self):
        from adaptdl import trial
        with mock.patch.dict(os.environ, {"ADAPTDL_TRIAL_PARAMS": '{"lr": 0.5}'}):
            self.assertEqual(trial.get_params(), {"lr": 0.5})
        self.assertEqual(trial.params.get("lr", 1), 1)
        with mock.patch.dict(os.environ, {"ADAPTDL_TRIAL_PARAMS": "[1]"}), self.assertRaisesRegex(ValueError, "mapping"):
            trial.get_params()


class SpaceTest(unittest.TestCase):
    def test_a_grid_has_each_point_once(self):
        space = search_of(parameters={
            "a": {"choice": ["x", "y"]}, "b": {"uniform": [0, 1], "step": 0.5, "when": {"a": "y"}}}).space
        self.assertEqual(space.grid(), [{"a": "x"}, {"a": "y", "b": 0}, {"a": "y", "b": 0.5}, {"a": "y", "b": 1}])
        for point in space.grid():
            self.assertTrue(space.holds(point))
        self.assertFalse(space.holds({"a": "x", "b": 0}))
        self.assertFalse(space.holds({"a": "y"}))

    def test_true_is_not_one(self):
        space = search_of(parameters={"a": {"choice": [True, 1]}, "b": {"int": [1, 1], "when": {"a": True}}}).space
        self.assertEqual(space.grid(), [{"a": True, "b": 1}, {"a": 1}])


class RungsTest(unittest.TestCase):
    def curve(self, *values):
        return [rungs.Point(i + 1, value) for i, value in enumerate(values)]

    def test_the_best_of_a_rung_go_on(self):
        curves = {1: self.curve(0.9), 2: self.curve(0.5), 3: self.curve(0.7)}
        stopped = rungs.Rungs(1, 3, maximize=True).stopped(curves, [1, 2, 3])
        self.assertEqual(sorted(stopped), [2, 3])
        self.assertIn("not among the best 1 of 3 at progress 1", stopped[2])
        self.assertEqual(sorted(rungs.Rungs(1, 3, maximize=False).stopped(curves, [1, 2, 3])), [1, 3])

    def test_too_few_to_compare_go_on(self):
        self.assertEqual(rungs.Rungs(1, 3, True).stopped({1: self.curve(0.9), 2: self.curve(0.1)}, [1, 2]), {})

    def test_only_where_a_trial_is_now_counts(self):
        curves = {1: self.curve(0.1, 0.2, 0.3), **{i: self.curve(0.9) for i in range(2, 9)}}
        self.assertNotIn(1, rungs.Rungs(1, 3, True).stopped(curves, [1]))

    def test_progress_that_jumps_over_rungs_counts_for_all_of_them(self):
        self.assertEqual(rungs.Rungs(1, 2, False).reached([rungs.Point(5, 0.3)]), [0.3, 0.3, 0.3])

    def test_what_is_no_number_stops(self):
        self.assertIn("not a number", rungs.Rungs(1, 3, True).stopped({1: self.curve(math.nan)}, [1])[1])


class ConcurrencyTest(unittest.TestCase):
    def choice(self, left, slots, exponent, most=64, **options):
        return concurrency.choose(concurrency.Outlook(left, slots, most, lambda k: k**exponent, **options))

    def test_what_scales_well_runs_one_after_the_other_and_what_does_not_side_by_side(self):
        self.assertEqual(self.choice(16, 8, 1.0).at_once, 1)
        self.assertEqual(self.choice(16, 8, 0.3).at_once, 8)
        alone = self.choice(16, 8, 0.9, rungs=(1 / 9, 1 / 3))
        self.assertTrue(1 < alone.at_once < 8, alone)

    def test_no_more_than_there_is_room_for_or_left(self):
        self.assertEqual(self.choice(100, 3, 0.2).at_once, 3)
        self.assertEqual(self.choice(2, 50, 0.2).at_once, 2)
        self.assertEqual(self.choice(1, 1, 0.2).at_once, 1)
        # Of single replicas each slot has its trial, if the last round is as full.
        self.assertEqual(self.choice(8, 4, 1.0, most=1).at_once, 4)

    def test_the_expected_time_is_that_of_the_work(self):
        # Two at once on two replicas each, eight trials: four rounds at the speed of two.
        plain = concurrency.Outlook(8, 4, 64, lambda k: k**0.5)
        self.assertAlmostEqual(concurrency.expected_time(plain, 2), 4 / 2**0.5)
        # One in three goes on from a third of the work: the rest is spared.
        climbing = concurrency.Outlook(9, 1, 1, lambda k: k, (1 / 3,))
        self.assertLess(concurrency.expected_time(climbing, 1), 9)
        self.assertGreater(concurrency.expected_time(climbing, 1), 9 / 3)

    def test_it_says_what_other_numbers_would_take(self):
        self.assertRegex(self.choice(16, 8, 0.8, rungs=(1 / 9, 1 / 3)).why(),
                         r"^\d at once; 1 at once would take 1\.\d\d times as long")

    def test_rungs_and_speed_ups(self):
        self.assertEqual(concurrency.rung_parts(1, 3, 18), [1 / 18, 3 / 18, 9 / 18])
        self.assertEqual(len(concurrency.rung_parts(1, 3, None)), 3)
        self.assertEqual(concurrency.rung_parts(5, 3, 5), [])
        speedup = concurrency.speedup_of([lambda k: float(k), lambda k: k**0.5])
        self.assertAlmostEqual(speedup(4), 8**0.5)
        self.assertAlmostEqual(speedup(1.5), (1 + 2**0.75) / 2)
        self.assertEqual(concurrency.speedup_of([])(1), 1)

    def test_what_the_cluster_tells(self):
        cluster = Cluster(good, looks=10**6)
        for number in (1, 2):
            trials.Trials(cluster, search_of()).start(number, trials.Plan({"lr": 0.1, "optimizer": "sgd", "layers": 1}))
        found = trials.Trials(cluster, search_of()).load()
        for trial in found:
            trial.job.raw.spec.template.resources = types.SimpleNamespace(cpu_millis=2000, memory_bytes=0, gpus=0)
        seen = outlook.outlook_of(search_of(budget={"trials": 8}, early_stopping={"first": 2}), found,
                                  [node(8000, 3000), node(8000, 0, "DRAINING")])
        self.assertEqual((seen.trials, seen.slots, seen.most, len(seen.rungs)), (8, 2 + 2, 4, 3))
        hints = found[0].job.raw.status.hints = _protocol.message_class("Hints")(init_batch_size=128, max_batch_size=4096)
        for name, value in zip(("alpha_c", "beta_c", "alpha_n", "beta_n", "alpha_r", "beta_r", "gamma"),
                               (0.1, 0.001, 0.02, 0.001, 0.01, 0.001, 1.5)):
            setattr(hints.perf_params, name, value)
        hints.grad_params.norm, hints.grad_params.var = 0.001, 0.5
        found[0].job.raw.status.HasField = lambda field: field == "hints"
        seen = outlook.outlook_of(search_of(), found, [])
        self.assertTrue(1 < seen.speedup(2) < 2, seen.speedup(2))


class LoopTest(unittest.TestCase):
    def run_search(self, cluster, **changes):
        search = search_of(**changes)
        return search, tuner.Tuner(cluster, search, interval=0.001).run()

    def test_a_search_to_its_end(self):
        for algorithm in ("tpe", "random", "cmaes"):
            cluster = Cluster(good)
            search, found = self.run_search(cluster, algorithm=algorithm, at_once=2)
            self.assertEqual([trial.number for trial in found], [1, 2, 3, 4, 5, 6])
            self.assertEqual({trial.status for trial in found}, {"done"})
            self.assertEqual(cluster.most_at_once, 2)
            best = tuner.best_of(search, found)
            self.assertEqual(best.value, max(trial.value for trial in found))
            for trial in found:
                self.assertTrue(search.space.holds(trial.params))
                self.assertEqual(any("beta" in word for word in trial.job.command), trial.params["optimizer"] == "adam")
            self.assertTrue(cluster.jobs["digits"].finished)
            self.assertIn(f"{best.number}*", table.table(search, found))

    def test_without_at_once_it_is_as_many_as_pay(self):
        cluster = Cluster(good, looks=10)
        self.run_search(cluster, job={"cpus": 1, "max_replicas": 1})
        self.assertEqual(cluster.most_at_once, 3, "two rounds of three, as four would leave two for the second")

    def test_each_trial_has_an_equal_share_at_most(self):
        seen = set()

        def look(found):
            running = [trial.job for trial in found if not trial.job.finished]
            seen.update((len(running), job.raw.spec.max_replicas) for job in running)

        cluster = Cluster(good, looks=12)
        search = search_of(at_once=3, budget={"trials": 4}, job={"cpus": 1})
        tuner.Tuner(cluster, search, interval=0.001, show=look).run()
        self.assertLessEqual({(3, 2), (1, 4)}, seen, "of four slots; the last one has them all")
        cluster = Cluster(good, looks=12)
        seen.clear()
        search = search_of(at_once=3, budget={"trials": 3}, job={"cpus": 1, "min_replicas": 3, "max_replicas": 3})
        tuner.Tuner(cluster, search, interval=0.001, show=look).run()
        self.assertEqual({most for _, most in seen}, {3}, "what the file says comes first")

    def test_a_tuner_that_comes_later_goes_on_as_the_first_would_have(self):
        for algorithm in ("tpe", "cmaes"):
            whole = self.run_search(Cluster(good), algorithm=algorithm, at_once=1)[1]
            cluster = Cluster(good)
            first = tuner.Tuner(cluster, search_of(algorithm=algorithm, at_once=1), interval=0.001,
                                show=lambda found: len(found) == 3 and first.leave())
            first.run()
            self.assertFalse(cluster.jobs["digits"].finished)
            cluster.is_away = True
            found = self.run_search(cluster, algorithm=algorithm, at_once=1)[1]
            self.assertEqual([trial.params for trial in found], [trial.params for trial in whole])

    def test_two_tuners_share_one_search(self):
        cluster = Cluster(good)
        submit = cluster.submit

        def raced(command, *, name, **options):
            """The other tuner starts the same trial a moment earlier."""
            if name == "digits-2":
                submit(command, name=name, **options)
            submit(command, name=name, **options)

        cluster.submit = raced
        found = tuner.Tuner(cluster, search_of(at_once=2), interval=0.001).run()
        self.assertEqual(len(cluster.trials()), 6)
        self.assertEqual(len(found), 6)

    def test_a_grid_and_a_space_with_one_point(self):
        parameters = {"lr": {"choice": [0.1, 0.2]}, "b": {"int": [1, 2]}}
        found = self.run_search(Cluster(good), algorithm="grid", parameters=parameters)[1]
        self.assertEqual([tuple(trial.params.values()) for trial in found], [(0.1, 1), (0.1, 2), (0.2, 1), (0.2, 2)])
        found = self.run_search(Cluster(good), parameters={"lr": {"uniform": [0.5, 0.5]}})[1]
        self.assertEqual([trial.params for trial in found], [{"lr": 0.5}])

    def test_hopeless_searches_end(self):
        for program, pattern in ((lambda params, age: ("FAILED", []), "none of the first 3 trials ran to its end"),
                                 (lambda params, age: ("SUCCEEDED", []), r"never called adaptdl.report\(accuracy=...\)"),
                                 (lambda params, age: ("SUCCEEDED", [math.nan]), "has a number as its accuracy")):
            cluster = Cluster(program)
            with self.assertRaisesRegex(tuner.SearchError, pattern):
                self.run_search(cluster, at_once=1)
            self.assertEqual(len(cluster.trials()), 3)
            self.assertTrue(all(job.finished for job in cluster.jobs.values()))

    def test_some_failures_do_not_end_a_search(self):
        search, found = self.run_search(
            Cluster(lambda params, age: good(params, age) if params["layers"] > 1 else ("FAILED", [])),
            parameters={"lr": {"choice": [0.1]}, "layers": {"int": [1, 4]}}, algorithm="grid")
        self.assertEqual([trial.status for trial in found], ["failed", "done", "done", "done"])
        self.assertEqual(tuner.best_of(search, found).number, 2)

    def test_bad_trials_are_stopped_at_their_rungs(self):
        def program(params, age):
            return "SUCCEEDED", [params["lr"]] * age

        found = self.run_search(Cluster(program, looks=30), at_once=3, algorithm="grid", early_stopping={"factor": 2},
                                parameters={"lr": {"choice": [0.3, 0.1, 0.2]}})[1]
        self.assertEqual([trial.status for trial in found], ["done", "stopped early", "stopped early"])

    def test_a_stopped_search_ends_with_its_trials(self):
        cluster = Cluster(good, looks=10**6)
        looks = []

        def show(found):
            looks.append(len(found))
            if len(looks) == 3:
                cluster.cancel("digits")

        found = tuner.Tuner(cluster, search_of(at_once=2), interval=0.001, show=show).run()
        self.assertEqual([trial.job.phase for trial in found], ["CANCELLED", "CANCELLED"])

    def test_a_quota_bounds_the_trials_at_once(self):
        for most, trials_there in ((2, 6), (0, 0)):
            cluster = Cluster(good)
            submit = cluster.submit

            def bounded(command, *, name, labels, **options):
                if trials.TRIAL_LABEL in labels and sum(not job.finished for job in cluster.trials()) >= most:
                    raise LimitReachedError("quota", "RESOURCE_EXHAUSTED")
                submit(command, name=name, labels=labels, **options)

            cluster.submit = bounded
            if most == 0:
                with self.assertRaises(LimitReachedError):
                    self.run_search(cluster)
            else:
                self.run_search(cluster)
            self.assertEqual((len(cluster.trials()), cluster.most_at_once), (trials_there, most))

    def test_money_is_a_budget(self):
        cluster = Cluster(good)
        search = search_of(at_once=1, budget={"cost": 2})

        def show(found):
            for job in cluster.trials():
                job.raw.status.cost = 1.0

        self.assertEqual(len(tuner.Tuner(cluster, search, interval=0.001, show=show).run()), 2)

    def test_another_search_of_the_same_name_is_refused(self):
        cluster = Cluster(good)
        self.run_search(cluster)
        with self.assertRaisesRegex(search_file.SearchFileError, "a search of this name with other parameters"):
            self.run_search(cluster, parameters={"lr": {"uniform": [0, 1]}})
        self.assertEqual(len(self.run_search(cluster, budget={"trials": 8})[1]), 8)

    def test_pictures_show_each_trial(self):
        import xml.etree.ElementTree
        from adaptdl.tune import plots
        search, found = self.run_search(Cluster(lambda params, age: good(params, age) if params["layers"] > 1
                                                else ("FAILED", [math.nan])))
        for draw in (plots.curves, plots.parallel):
            for some in (found, found[:1], []):
                tree = xml.etree.ElementTree.fromstring(draw(search, some))
                lines = tree.findall("{http://www.w3.org/2000/svg}g")
                self.assertEqual(len(lines), len(some))
                for dot in tree.iter("{http://www.w3.org/2000/svg}circle"):
                    self.assertTrue(0 <= float(dot.get("cx")) <= plots.WIDTH and 0 <= float(dot.get("cy")) <= plots.HEIGHT)
        search = search_of(parameters={"b": {"choice": ["<b>", True, 1]}})
        self.assertNotIn("<b>", plots.parallel(search, self.run_search(
            Cluster(lambda params, age: ("SUCCEEDED", [1.0])), parameters={"b": {"choice": ["<b>", True, 1]}})[1]))

    def test_optunas_tools_open_the_study(self):
        import optuna
        search, found = self.run_search(Cluster(good))
        with tempfile.TemporaryDirectory() as folder:
            storage = f"sqlite:///{folder}/study.db"
            study.make_study(search, found, storage)
            loaded = optuna.load_study(study_name="digits", storage=storage)
            self.assertEqual(loaded.best_value, tuner.best_of(search, found).value)
            self.assertEqual(loaded.best_trial.user_attrs["job"], f"default/digits-{loaded.best_trial.number + 1}")


if __name__ == "__main__":
    unittest.main()
