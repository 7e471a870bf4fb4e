"""What trials of `adaptdl.tune` take over from others: forks of a population, and what earlier searches have found."""


import math
import random
import types
import unittest

from adaptdl.tune import outlook, population, rungs, search_file, study, table, trials, tuner, warm_start
from tune_cluster import Cluster, good, search_of

RATE = {"parameters": {"lr": {"log_uniform": [0.001, 1]}}, "budget": {"trials": 20}, "algorithm": "random",
        "population": {"size": 4, "every": 2}, "at_once": 4}


def steady(params, age):
    """Each look adds the learning rate."""
    return "SUCCEEDED", [params["lr"] * (i + 1) for i in range(age)]


def run(cluster, **changes):
    search = search_of(**{**RATE, **changes})
    return search, tuner.Tuner(cluster, search, interval=0.001).run()


def family(found):
    """Parent and predecessor of each fork, by its number."""
    return {trial.number: (trial.sampler_state[population.FORK_OF], trial.sampler_state[population.INSTEAD_OF])
            for trial in found if population.FORK_OF in trial.sampler_state}


class PopulationTest(unittest.TestCase):
    def test_the_worst_are_replaced_by_forks_of_the_best(self):
        search, found = run(Cluster(steady, looks=9))
        forks = family(found)
        self.assertTrue(forks)
        by_number = {trial.number: trial for trial in found}
        for number, (parent, place) in forks.items():
            fork = by_number[number]
            self.assertEqual(fork.job.start_from, f"digits-{parent}")
            self.assertEqual(by_number[place].status, "stopped early")
            ratio = fork.params["lr"] / by_number[parent].params["lr"]
            self.assertTrue(min(abs(ratio - 1.2), abs(ratio - 1 / 1.2)) < 1e-9 or fork.params["lr"] in (0.001, 1), ratio)
            self.assertTrue(search.space.holds(fork.params))
            self.assertIn(f"(fork of {parent})", table.table(search, found))
        # Each is replaced once, and as many as began come to their end.
        self.assertEqual(len({place for _, place in forks.values()}), len(forks))
        self.assertEqual(sum(trial.is_good for trial in found), 4)
        alone = max(9 * trial.params["lr"] for trial in found if trial.number not in forks)
        self.assertGreater(tuner.best_of(search, found).value, alone * 0.99)

    def test_who_comes_later_goes_on_in_the_same_way(self):
        whole = run(Cluster(steady, looks=9))[1]
        cluster = Cluster(steady, looks=9)
        seen = set()

        def leave_between(found):
            """When somebody was stopped, and nobody has taken the place."""
            places = {place for _, place in family(found).values()}
            vacant = {trial.number for trial in found if trial.status == "stopped early"} - places - seen
            if vacant:
                seen.update(vacant)
                first.leave()

        for _ in range(9):
            first = tuner.Tuner(cluster, search_of(**RATE), interval=0.001, show=leave_between)
            found = first.run()
        self.assertTrue(seen)
        self.assertEqual([trial.params for trial in found], [trial.params for trial in whole])

    def test_the_budget_counts_forks(self):
        found = run(Cluster(steady, looks=30), budget={"trials": 5})[1]
        self.assertEqual(len(found), 5)
        self.assertEqual(sum(trial.is_good for trial in found), 4, "nobody makes room for a fork that there can't be")

    def test_what_is_no_number_is_replaced_and_never_a_parent(self):
        def program(params, age):
            return "SUCCEEDED", [math.nan if params["lr"] > 0.5 else params["lr"]] * age

        found = run(Cluster(program, looks=9), parameters={"lr": {"choice": [0.1, 0.2, 0.3, 0.9]}}, algorithm={
            "name": "random", "seed": 3}, population={"size": 8, "every": 2}, at_once=8)[1]
        bad = {trial.number for trial in found if trial.params["lr"] == 0.9}
        self.assertTrue(bad & {place for _, place in family(found).values()})
        self.assertFalse(bad & {parent for parent, _ in family(found).values()})

    def test_a_fork_that_can_not_begin_is_tried_again_and_given_up(self):
        cluster = Cluster(steady, looks=9)
        submit = cluster.submit

        def without_checkpoints(command, *, name, start_from="", **options):
            submit(command, name=name, start_from="", **options)
            if start_from:
                cluster.end(cluster.jobs[name], "FAILED")
                cluster.jobs[name].start_time = None

        cluster.submit = without_checkpoints
        found = run(cluster)[1]
        failed = [trial for trial in found if trial.status == "failed"]
        places = [place for _, place in family(failed).values()]
        self.assertTrue(places)
        for place in set(places):
            self.assertEqual(places.count(place), 3)
        self.assertTrue(any(trial.is_good for trial in found))

    def test_what_is_left(self):
        cluster = Cluster(steady, looks=10**6)
        search = search_of(**RATE)
        for number in (1, 2):
            trials.Trials(cluster, search).start(number, trials.Plan({"lr": number / 10}))
        self.assertEqual(outlook.trials_left(search, trials.Trials(cluster, search).load()), 4)
        cluster.cancel("digits-1")
        found = trials.Trials(cluster, search).load()
        self.assertEqual((found[0].status, outlook.trials_left(search, found)), ("stopped early", 3), "it was compared with nobody")

    def test_a_fork_is_not_judged_by_what_it_has_inherited(self):
        def trial(number, *curve, **state):
            raw = types.SimpleNamespace(status=types.SimpleNamespace(cancel_requested=False))
            job = types.SimpleNamespace(finished=False, raw=raw, start_time=1, phase="RUNNING")
            return trials.Trial(number, {}, state, job, [rungs.Point(*point) for point in curve], 1.0)

        chosen = search_of(**RATE).population
        good_ones = [trial(number, (2, 0.9), (4, 0.9)) for number in (1, 2, 3)]
        behind = trial(4, (2, 0.1), (4, 0.1))
        heir = trial(4, (4, 0.1), (5, 0.1), fork_of=1, instead_of=9)
        grown = trial(4, (4, 0.1), (5, 0.1), (6, 0.1), fork_of=1, instead_of=9)
        self.assertEqual([one.number for one in population.Standings(chosen, True, [*good_ones, behind]).fallen()], [4])
        self.assertEqual(population.Standings(chosen, True, [*good_ones, heir]).fallen(), [])
        later = [trial(number, (2, 0.9), (6, 0.9)) for number in (1, 2, 3)]
        self.assertEqual([one.number for one in population.Standings(chosen, True, [*later, grown]).fallen()], [4])
        # Equals are none the worse for it.
        self.assertEqual(population.Standings(chosen, True, good_ones + [trial(4, (2, 0.9))]).fallen(), [])

    def test_neighbours_are_points_of_the_space(self):
        space = search_of(parameters={
            "a": {"log_uniform": [0.01, 0.02]}, "b": {"uniform": [-1, 1]}, "c": {"uniform": [0, 1], "step": 0.3},
            "d": {"int": [2, 9], "step": 3}, "e": {"choice": ["x", "y"]}, "f": {"int": [1, 3], "when": {"e": "y"}}}).space
        values = {"a": 0.01, "b": 1, "c": 0.9, "d": 8, "e": "x"}
        seen = set()
        for draw in range(500):
            values = population.explore(space, values, 1.3, random.Random(draw))
            self.assertTrue(space.holds(values), values)
            seen.add((values["d"], values["e"], values.get("f")))
        self.assertGreaterEqual({one[0] for one in seen}, {2, 5, 8})
        self.assertEqual({one[1] for one in seen}, {"x", "y"})

    def test_files(self):
        self.assertEqual(search_of(**RATE).population, search_file.Population(4, "epochs", 2, 0.25, 1.2))
        for changes, pattern in (
                ({"population": {}}, "population.size is None: say how many"),
                ({"population": {"size": 1}}, "population.size is 1: give a whole number from 2"),
                ({"budget": {"trials": 3}}, "budget.trials is 3: forks count, too"),
                ({"population": {"size": 4, "quantile": 0.6}}, "population.quantile is 0.6: give at most 0.5"),
                ({"population": {"size": 4, "change": 1}}, "population.change is 1: give more than 1"),
                ({"population": {"size": 4, "progress": "time"}}, "population.progress is 'time': give one of"),
                ({"early_stopping": {}}, "a population replaces trials instead"),
                ({"algorithm": "grid", "parameters": {"lr": {"choice": [1]}}}, "give tpe or random"),
                ({"warm_start": "digits"}, "warm_start is 'digits': give names"),
                ({"warm_start": 3}, "warm_start is 3: give names")):
            with self.assertRaisesRegex(search_file.SearchFileError, pattern):
                search_of(**{**RATE, **changes})

    def test_checkpoints_come_often_enough_for_forks(self):
        for env, period in (({}, "10"), ({"ADAPTDL_CHECKPOINT_PERIOD_SECONDS": "3"}, "3")):
            cluster = Cluster(good)
            run(cluster, job={"env": env})
            self.assertEqual(cluster.jobs["digits-1"].env["ADAPTDL_CHECKPOINT_PERIOD_SECONDS"], period)


class PodsTest(unittest.TestCase):
    def test_all_jobs_of_a_search_have_its_image(self):
        cluster = Cluster(good)
        tuner.Tuner(cluster, search_of(job={"image": "registry/train:1"}), interval=0.001).run()
        self.assertEqual({job.options.get("image") for job in cluster.jobs.values()}, {"registry/train:1"})


class WarmStartTest(unittest.TestCase):
    def test_the_sampler_knows_earlier_trials(self):
        for algorithm in ("tpe", "cmaes", "random"):
            cluster = Cluster(good)
            earlier = search_of(name="before", algorithm="random", budget={"trials": 12})
            tuner.Tuner(cluster, earlier, interval=0.001).run()
            search = search_of(warm_start=["before"], algorithm=algorithm, at_once=1)
            known = warm_start.trials_of_earlier(cluster, search)
            self.assertEqual(len(known), 12)
            found = tuner.Tuner(cluster, search, interval=0.001).run()
            self.assertEqual(len(found), 6)
            cold = tuner.Tuner(Cluster(good), search_of(algorithm=algorithm, at_once=1), interval=0.001).run()
            same = [trial.params for trial in found] == [trial.params for trial in cold]
            self.assertEqual(same, algorithm == "random")
            # They are no trials of this search.
            self.assertEqual(len(study.make_study(search, found).trials), 6)

    def test_of_another_space_what_fits_is_known(self):
        cluster = Cluster(good)
        tuner.Tuner(cluster, search_of(name="before", algorithm="random", budget={"trials": 12}), interval=0.001).run()
        narrow = {**search_of().document["parameters"], "layers": {"int": [1, 2]}}
        known = warm_start.trials_of_earlier(cluster, search_of(parameters=narrow, warm_start="before"))
        self.assertTrue(0 < len(known) < 12)
        self.assertTrue(all(trial.params["layers"] <= 2 for trial in known))

    def test_what_can_not_be_known_is_said(self):
        cluster = Cluster(good)
        with self.assertRaisesRegex(search_file.SearchFileError, "warm_start is 'before': there is no search 'before'"):
            tuner.Tuner(cluster, search_of(warm_start="before"), interval=0.001).run()
        tuner.Tuner(cluster, search_of(name="before", metric={"name": "loss", "direction": "minimize"}, budget={
            "trials": 1}), interval=0.001)._record.keep(search_of(name="before", metric={"name": "loss", "direction": "minimize"}))
        with self.assertRaisesRegex(search_file.SearchFileError, "its metric is loss, to be minimized, and not accuracy"):
            warm_start.trials_of_earlier(cluster, search_of(warm_start="before"))

    def test_trials_may_start_from_a_job(self):
        cluster = Cluster(good)
        cluster.submit("x", name="teacher", labels={}, env={})
        tuner.Tuner(cluster, search_of(job={"start_from": "teacher"}), interval=0.001).run()
        self.assertEqual({job.start_from for job in cluster.trials()}, {"teacher"})


if __name__ == "__main__":
    unittest.main()
