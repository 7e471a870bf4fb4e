"""What a trial has written, copied out of the cluster."""

import pathlib
import sys

from adaptdl.client import Client, JobNotFoundError
from adaptdl.tune.trials import Trial
from adaptdl.tune.tuner import SearchError

_FOLDERS = ("checkpoint", "share")


def copy_files(client: Client, trial: Trial, folder: str, document: str) -> None:
    """Its newest checkpoint into FOLDER/checkpoint, its shared files into FOLDER/share, what is known of it into
    FOLDER/trial.json. SearchError: the folder holds something already, or the trial has written nothing."""
    target = pathlib.Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise SearchError(f"--copy {folder}: it is there already: give a new folder, or an empty one")
    job = f"{trial.job.namespace}/{trial.job.name}"
    counts = {name: _copy(client, job, name, target / name) for name in _FOLDERS}
    if not any(counts.values()):
        raise SearchError(f"trial {trial.number} ({job}) has written no files: a program leaves them in the folders "
                          "ADAPTDL_CHECKPOINT_PATH and ADAPTDL_SHARE_PATH")
    (target / "trial.json").write_text(document + "\n", encoding="utf-8")
    print(f"copied {counts['checkpoint']} files of the checkpoint and {counts['share']} shared files of {job} to {folder}",
          file=sys.stderr)


def _copy(client: Client, job: str, name: str, target: pathlib.Path) -> int:
    live = sys.stderr.isatty()

    def show(received: int) -> None:
        print(f"\r{name}: {received / 2**20:.1f} MiB", end="", file=sys.stderr, flush=True)

    try:
        return client.copy(job, name, str(target), on_bytes=show if live else None)
    except JobNotFoundError:  # a trial that never ran has no such folder
        return 0
    finally:
        if live:
            print("\r\x1b[K", end="", file=sys.stderr)
