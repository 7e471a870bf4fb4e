"""Parts of `adaptdl.tune` that need no cluster: the pace of a search, its table on a terminal, copies of files.

tune_units_test.py BUILD_FOLDER
"""

import datetime
import io
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(BUILD / "python"))
from adaptdl.client import ClientError, InvalidRequestError, _files  # noqa: E402
from adaptdl.client._types import Node, Resources  # noqa: E402
from adaptdl.tune.pace import duration, pace_of  # noqa: E402
from adaptdl.tune.rungs import Point  # noqa: E402
from adaptdl.tune.search_file import SearchFileError, parse  # noqa: E402
from adaptdl.tune.table import LiveTable, table  # noqa: E402
from adaptdl.tune.trials import Trial  # noqa: E402
from adaptdl.tune.tuner_job import Place, job_of, place_of  # noqa: E402

BEGIN = datetime.datetime(2024, 5, 1, tzinfo=datetime.timezone.utc)


def at(seconds):
    return BEGIN + datetime.timedelta(seconds=seconds)


def search_of(**budget):
    return parse({"name": "s", "command": "echo {x}", "parameters": {"x": {"uniform": [0, 1]}},
                  "metric": {"name": "loss", "direction": "minimize"}, "budget": budget, "at_once": 1,
                  "job": {"max_replicas": 1}})


def trial(number, begin, end=None, part=0.0, cost=None):
    """One that took from begin to end, or that has done a part."""
    status = types.SimpleNamespace(cost=cost or 0.0, cancel_requested=False, hints=None,
                                   progress=types.SimpleNamespace(fraction=part, metrics=[]),
                                   HasField=lambda name: name == "cost" and cost is not None)
    resources = types.SimpleNamespace(cpu_millis=1000, memory_bytes=0, gpus=0)
    raw = types.SimpleNamespace(status=status, spec=types.SimpleNamespace(
        template=types.SimpleNamespace(resources=resources)))
    job = types.SimpleNamespace(
        namespace="default", name=f"s-{number}", finished=end is not None, phase="SUCCEEDED" if end else "RUNNING",
        allocation=[] if end else ["n"], group=1, replicas=[], submit_time=at(begin), start_time=at(begin), raw=raw, rescales=0, restarts=0,
        completion_time=at(end) if end else None)
    return Trial(number, {"x": 0.5}, {}, job, [Point(1, number)], float(number))


def node(allocated=0):
    return Node("n", "READY", Resources(1000, 0, 0), Resources(allocated, 0, 0), "", {}, None)


class PaceTest(unittest.TestCase):
    def test_the_rest_takes_what_its_trials_take(self):
        trials = [trial(1, 0, 10), trial(2, 10, 20), trial(3, 20, part=0.5)]
        pace = pace_of(search_of(trials=4), trials, [node(1000)], at(25))
        self.assertEqual(pace.elapsed, 25)
        self.assertAlmostEqual(pace.left, 15)  # half of a trial and a whole one
        self.assertEqual(pace.text(), "25s elapsed, about 15s left")

    def test_costs_go_on_as_they_were(self):
        trials = [trial(1, 0, 10, cost=2.0), trial(2, 10, 20, cost=2.0)]
        pace = pace_of(search_of(trials=4), trials, [node()], at(20))
        self.assertAlmostEqual(pace.cost_left, 4)
        self.assertEqual(pace.text(), "20s elapsed, about 20s left; cost 4.00 so far, about 4.00 to come")

    def test_time_and_money_end_a_search_too(self):
        trials = [trial(1, 0, 1800, cost=3.0)]
        self.assertEqual(pace_of(search_of(hours=1), trials, [node()], at(1800)).left, 1800)
        self.assertEqual(pace_of(search_of(cost=4.0), trials, [node()], at(1800)).left, 600)
        self.assertEqual(pace_of(search_of(trials=9, hours=1), trials, [node()], at(1800)).left, 1800)

    def test_says_what_it_does_not_know(self):
        search = search_of(trials=4)
        self.assertIsNone(pace_of(search, [], [node()], at(5)))
        pace = pace_of(search, [trial(1, 0)], [node(1000)], at(5))
        self.assertEqual(pace.text(), "5s elapsed, time left not known yet")

    def test_one_that_is_over_has_nothing_left(self):
        trials = [trial(1, 0, 10), trial(2, 10, 30)]
        self.assertEqual(pace_of(search_of(trials=2), trials, [node()], at(500)).text(), "30s elapsed")
        self.assertEqual(pace_of(search_of(trials=9), trials, [node()], at(500), over=True).text(), "30s elapsed")

    def test_durations_are_two_units(self):
        self.assertEqual([duration(seconds) for seconds in (0, 59.6, 61, 3600, 11400, 200000)],
                         ["0s", "1m", "1m 1s", "1h", "3h 10m", "2d 7h"])


class TableTest(unittest.TestCase):
    def test_what_runs_and_the_best_one_stay_where_there_is_little_room(self):
        trials = [trial(number, 0, 10) for number in range(1, 9)] + [trial(9, 0)]
        text = table(search_of(trials=9), trials, "pace", most=3)
        self.assertEqual([line.split()[0] for line in text.splitlines()], ["TRIAL", "1*", "8", "9", "and", "8", "pace"])

    def test_a_terminal_shows_lines_that_do_not_wrap(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        output = Terminal()
        live = LiveTable(search_of(trials=9), output, lambda trials: "p" * 200)
        with mock.patch.dict(os.environ, {"COLUMNS": "40", "LINES": "10"}):
            live.show([trial(1, 0)])
            live.show([trial(1, 0, 10)])
        first, again = output.getvalue().split("\x1b[J")
        self.assertTrue(first.endswith("\x1b[4F"))  # a header, a trial, two sums
        self.assertLess(max(map(len, again.splitlines())), 40)


class TunerJobTest(unittest.TestCase):
    @staticmethod
    def search(**tuner):
        return parse({**search_of(trials=4).document, "tuner": tuner})

    def test_it_is_small_and_may_call_the_api(self):
        job = job_of(self.search(), "vision", Place("python3", "", 2.0))
        self.assertEqual(job["command"][0], "python3")
        self.assertEqual(job["command"][3:], ["--namespace", "vision", "tuner", "--interval=2.0", "s"])
        self.assertEqual((job["cpus"], job["api_access"], job["env"]), (0, True, {}))

    def test_the_file_says_which_python(self):
        job = job_of(self.search(python="/opt/python", env={"A": "b"}, cpus=0.5), "default", Place("x", "/packages"))
        self.assertEqual((job["command"][0], job["cpus"]), ("/opt/python", 0.5))
        self.assertEqual(job["env"], {"A": "b", "PYTHONPATH": "/packages"})
        self.assertNotIn("requirements", job)
        job = job_of(self.search(python="/opt/python", requirements="optuna"), "default", Place("x", "/packages"))
        self.assertEqual((job["command"][0], job["python"], job["requirements"]), ("python3", "/opt/python", "optuna"))
        self.assertEqual(job["env"], {})

    def test_this_machine_has_this_python(self):
        def place(*addresses):
            nodes = [types.SimpleNamespace(raw=types.SimpleNamespace(worker_address=one)) for one in addresses]
            return place_of(types.SimpleNamespace(nodes=lambda: nodes), 1.0)

        here = place("127.0.0.1:7101", "[::1]:7102", "localhost:1")
        self.assertEqual(here.python, sys.executable)
        self.assertIn(str(BUILD / "python"), here.packages.split(":"))
        for addresses in ((), ("127.0.0.1:1", "10.0.0.2:1"), ("node-1:7101",)):
            self.assertEqual(place(*addresses), Place("python3", "", 1.0))

    def test_wrong_fields_are_named(self):
        for change, text in ((dict(tuner={"gpus": 1}), "tuner.gpus is 1: there is no such field"),
                             (dict(tuner={"cpus": "many"}), "tuner.cpus is 'many': give a float"),
                             (dict(job={"code": {"digest": 3}}), "job.code is .*: give folder instead"),
                             (dict(job={"code": {"digest": "a", "size": 1}, "folder": "."}), "leave out one of them")):
            with self.assertRaisesRegex(SearchFileError, text):
                parse({**search_of(trials=4).document, **change})


class FilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name, "copy")

    @staticmethod
    def chunk(path, data=b"", offset=0, size=None, directory=False):
        return types.SimpleNamespace(path=path, directory=directory, mode=0o640, offset=offset, data=data,
                                     size=len(data) if size is None else size)

    def test_files_are_put_together(self):
        told = []
        count = _files.write(_files.new_folder(str(self.folder)), [
            self.chunk(".", directory=True), self.chunk("a/b", b"12", 0, 3), self.chunk("a/b", b"3", 2, 3),
            self.chunk("empty")], told.append)
        self.assertEqual((count, told), (2, [2, 3, 3]))
        self.assertEqual(pathlib.Path(self.folder, "a/b").read_bytes(), b"123")
        self.assertEqual(pathlib.Path(self.folder, "empty").stat().st_mode & 0o777, 0o640)

    def test_nothing_is_written_outside(self):
        folder = _files.new_folder(str(self.folder))
        for path in ("../x", "/x", "a/../../x"):
            with self.assertRaisesRegex(ClientError, "leads out of the folder"):
                _files.write(folder, [self.chunk(path, b"1")], None)
        self.assertEqual(list(folder.parent.iterdir()), [folder])

    def test_half_a_file_is_none(self):
        for rest in ([], [self.chunk("other", b"1")]):
            with self.assertRaisesRegex(ClientError, "'half' is not whole"):
                _files.write(_files.new_folder(str(self.folder) + str(len(rest))), [self.chunk("half", b"1", 0, 9), *rest],
                             None)

    def test_a_folder_with_files_is_left_alone(self):
        folder = _files.new_folder(str(self.folder))
        (folder / "mine").touch()
        with self.assertRaisesRegex(InvalidRequestError, "holds files already"):
            _files.new_folder(str(self.folder))


if __name__ == "__main__":
    unittest.main()
