"""The command: `python3 -m adaptdl.tune`."""

import argparse
import datetime
import json
import signal
import sys
from typing import Any, Dict, List, Optional

MISSING = {"optuna": "python3-optuna", "yaml": "python3-yaml", "grpc": "python3-grpcio", "google": "python3-protobuf"}


def main(arguments: List[str]) -> int:
    """The exit code: 0, 1 what was wrong, 2 a wrong use, 3 there is no good trial."""
    try:
        from adaptdl.client import ClientError
        from adaptdl.tune.search_file import SearchFileError
        from adaptdl.tune.tuner import SearchError
        import optuna  # noqa: F401
        import yaml  # noqa: F401
    except ImportError as error:
        package = MISSING.get((error.name or "").split(".")[0])
        help_ = f" (for /usr/bin/python3: apt install {package}; else pip install 'adaptdl-elastic[tune]')" if package else ""
        print(f"error: {sys.executable} can't run searches: {error}{help_}", file=sys.stderr)
        # By which a job says that to start it again is no use (tuner_job.py, which can't be read here).
        return 78 if "tuner" in arguments[:3] else 1
    options = _parser().parse_args(arguments)
    try:
        return int(options.action(options))
    except (ClientError, SearchError, SearchFileError, OSError) as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 2 if isinstance(error, SearchFileError) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m adaptdl.tune", description="Searches for good hyper-parameters.")
    parser.add_argument("--namespace", default="default", help="where its jobs are")
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def add(name: str, action: Any, text: str, argument: Optional[str] = "name") -> argparse.ArgumentParser:
        command = actions.add_parser(name, help=text, description=text)
        command.set_defaults(action=action)
        if argument:
            command.add_argument(argument)
        return command

    run = add("run", _run, "run the search of a file, or go on with it, by a tuner that is a job", "file")
    resume = add("resume", _resume, "follow a search, and go on with it if its tuner is gone or it was stopped")
    for command in (run, resume):
        command.add_argument("--local", action="store_true", help="run the tuner here, and not as a job of the cluster")
    for command in (run, resume, add("tuner", _tuner, "what the tuner's job runs")):
        command.add_argument("--interval", type=float, default=1.0, help="seconds between two looks at the trials")
    add("ls", _ls, "the searches that there are", None)
    add("show", _show, "the trials of a search")
    best = add("best", _best, "the best trial, as JSON")
    best.add_argument("--copy", metavar="DIR", help="also copy its checkpoint and its shared files into this new folder")
    export = add("export", _export, "all trials, as JSON")
    export.add_argument("--sqlite", metavar="FILE", help="as a study in a new file, for Optuna's own tools")
    add("plot", _plot, "draw a search as SVG files in this folder: curves, and parallel coordinates")
    add("stop", _stop, "stop a search and the trials that run")
    add("delete", _delete, "remove a search that has ended, with its trials' jobs and files")
    return parser


def _client(options: argparse.Namespace) -> Any:
    from adaptdl.client import Client
    return Client(namespace=options.namespace)


def _find(client: Any, name: str) -> Any:
    """The search, and its trials."""
    from adaptdl.tune.record import Record
    from adaptdl.tune.trials import Trials
    search = Record(client, name).search()
    return search, Trials(client, search).load()


def _run(options: argparse.Namespace) -> int:
    from adaptdl.tune.search_file import load
    from adaptdl.tune.tuner_job import with_folder_sent
    search = load(options.file)
    with _client(options) as client:
        return _go_on(client, with_folder_sent(client, search), options)


def _resume(options: argparse.Namespace) -> int:
    with _client(options) as client:
        search, _ = _find(client, options.name)
        return _go_on(client, search, options)


def _go_on(client: Any, search: Any, options: argparse.Namespace) -> int:
    from adaptdl.client import InvalidRequestError
    from adaptdl.tune.follow import follow
    from adaptdl.tune.record import Record
    from adaptdl.tune.tuner_job import place_of
    from adaptdl.tune.warm_start import trials_of_earlier
    interval = max(options.interval, 0.1)
    trials_of_earlier(client, search)  # what is wrong there is said here, and not by a job
    try:
        Record(client, search.name).keep(search, place_of(client, interval), held=options.local)
    except InvalidRequestError as error:
        # A tuner in the terminal can do without.
        if not options.local:
            raise InvalidRequestError(f"the tuner can't be a job here: {error}; --local runs it in this terminal",
                                      error.code) from error
    return _tune(client, search, interval) if options.local else follow(client, search, interval)


def _tuner(options: argparse.Namespace) -> int:
    with _client(options) as client:
        search, _ = _find(client, options.name)
        return _tune(client, search, max(options.interval, 0.1), is_record=True)


def _tune(client: Any, search: Any, interval: float, is_record: bool = False) -> int:
    from adaptdl.tune.pace import PaceKeeper
    from adaptdl.tune.table import LiveTable, summary
    from adaptdl.tune.tuner import Tuner, best_of
    table = LiveTable(search, pace=PaceKeeper(client, search).text)
    tuner = Tuner(client, search, interval, table.show, is_record)
    signals: List[int] = []

    def leave(number: int, _: object) -> None:
        signals.append(number)
        tuner.leave()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    trials = tuner.run()
    if signals:
        print(f"trials that run go on; python3 -m adaptdl.tune resume {search.name} goes on with the search, "
              f"python3 -m adaptdl.tune stop {search.name} ends it", file=sys.stderr)
        return 128 + signals[0]
    print(summary(search, trials))
    return 0 if is_record or best_of(search, trials) is not None else 3


def _ls(options: argparse.Namespace) -> int:
    from adaptdl.tune.record import list_records
    from adaptdl.tune.table import summary
    with _client(options) as client:
        for job in list_records(client):
            search, trials = _find(client, job.name)
            print(f"{job.name} is {'over' if job.finished else 'open'}: {summary(search, trials)}")
    return 0


def _show(options: argparse.Namespace) -> int:
    from adaptdl.tune.concurrency import choose
    from adaptdl.tune.outlook import outlook_of
    from adaptdl.tune.pace import pace_of
    from adaptdl.tune.record import Record
    from adaptdl.tune.table import table
    with _client(options) as client:
        search, trials = _find(client, options.name)
        closed, nodes = Record(client, search.name).is_closed(), client.nodes()
    pace = pace_of(search, trials, nodes, datetime.datetime.now(datetime.timezone.utc), over=closed)
    print(table(search, trials, pace.text() if pace is not None else ""), end="")
    if search.at_once is None and not closed:
        print(choose(outlook_of(search, trials, nodes)).why())
    return 0


def _best(options: argparse.Namespace) -> int:
    from adaptdl.tune.copies import copy_files
    from adaptdl.tune.tuner import best_of
    with _client(options) as client:
        search, trials = _find(client, options.name)
        best = best_of(search, trials)
        if best is None:
            print(f"error: no trial of {search.name} has run to its end with a result", file=sys.stderr)
            return 3
        document = json.dumps(_document(search, best), indent=2)
        if options.copy is not None:
            copy_files(client, best, options.copy, document)
    print(document)
    return 0


def _export(options: argparse.Namespace) -> int:
    from adaptdl.tune.study import make_study
    with _client(options) as client:
        search, trials = _find(client, options.name)
    if options.sqlite is None:
        print(json.dumps({"search": search.document, "trials": [_document(search, one) for one in trials]}, indent=2))
        return 0
    # A new file only: two studies of one name in it would be a riddle.
    with open(options.sqlite, "x", encoding="utf-8"):
        pass
    make_study(search, trials, f"sqlite:///{options.sqlite}")
    print(f"wrote {options.sqlite}: optuna-dashboard sqlite:///{options.sqlite} shows it")
    return 0


def _plot(options: argparse.Namespace) -> int:
    import pathlib
    from adaptdl.tune import plots
    with _client(options) as client:
        search, trials = _find(client, options.name)
    for name, draw in (("curves", plots.curves), ("parallel", plots.parallel)):
        path = pathlib.Path(f"{search.name}-{name}.svg")
        path.write_text(draw(search, trials), encoding="utf-8")
        print(f"wrote {path}")
    return 0


def _stop(options: argparse.Namespace) -> int:
    from adaptdl.client import WaitTimeoutError
    from adaptdl.tune.record import Record
    from adaptdl.tune.trials import Trials
    with _client(options) as client:
        search, _ = _find(client, options.name)
        try:
            # A tuner that still runs could start another one.
            Record(client, options.name).end()
        except WaitTimeoutError:
            pass  # its node is away: it may change nothing any more
        trials = Trials(client, search)
        running = [trial for trial in trials.load() if not trial.job.finished]
        for trial in running:
            trials.stop(trial)
    print(f"{options.name} is stopped, and {len(running)} trials with it")
    return 0


def _delete(options: argparse.Namespace) -> int:
    from adaptdl.tune.record import Record
    with _client(options) as client:
        search, trials = _find(client, options.name)
        record = Record(client, options.name)
        if not record.is_closed() or any(not trial.job.finished for trial in trials):
            print(f"error: {search.name} has not ended: python3 -m adaptdl.tune stop {search.name} ends it",
                  file=sys.stderr)
            return 1
        for trial in trials:
            client.delete(trial.job.name)
        record.delete()
    print(f"{search.name} is deleted, with {len(trials)} trials")
    return 0


def _document(search: Any, trial: Any) -> Dict[str, Any]:
    """A trial as plain values."""
    from adaptdl.tune.population import FORK_OF
    fork = {"fork_of": trial.sampler_state[FORK_OF]} if FORK_OF in trial.sampler_state else {}
    return {"number": trial.number, "job": f"{trial.job.namespace}/{trial.job.name}", "status": trial.status,
            "params": trial.params, **fork, search.metric: trial.value,
            "curve": [[point.progress, point.value] for point in trial.curve]}
