"""Who this replica is, and what it was given: the environment variables that the scheduler sets, checked.

Ranks and numbers change while a job trains: they are those of now, once the replicas have met, and before
that those that this process was started with.
"""

import os
from typing import Optional

from adaptdl import Error
from adaptdl import _job


def _text(name: str) -> Optional[str]:
    return os.environ.get(name) or None


def _number(name: str, default: int) -> int:
    text = os.environ.get(name)
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise Error(f"{name} is {text!r}; it must be a whole number of at least 0")
    return number


def checkpoint_path() -> Optional[str]:
    """Folder of checkpoints. None: none are written."""
    return _text("ADAPTDL_CHECKPOINT_PATH")


def start_path() -> Optional[str]:
    """Folder with another job's checkpoints, to begin with where there is none of its own. None: it begins anew."""
    return _text("ADAPTDL_START_PATH")


def share_path() -> Optional[str]:
    """Folder for results. None: there is none."""
    return _text("ADAPTDL_SHARE_PATH")


def tensorboard_logdir() -> Optional[str]:
    """Folder for TensorBoard. None: there is none."""
    return _text("ADAPTDL_TENSORBOARD_LOGDIR")


def job_id() -> Optional[str]:
    """The job's "namespace/name". None: the program runs on its own."""
    return _text("ADAPTDL_JOB_ID")


def master_addr() -> str:
    """Only by hand, several replicas without a supervisor: where rank 0 listens."""
    return _text("ADAPTDL_MASTER_ADDR") or "127.0.0.1"


def master_port() -> int:
    """The port of `master_addr()`. 0: none was given."""
    return _number("ADAPTDL_MASTER_PORT", 0)


def replica_rank() -> int:
    """This replica's number, from 0."""
    ranks = _job.ranks()
    return ranks[0] if ranks is not None else _number("ADAPTDL_REPLICA_RANK", 0)


def num_replicas() -> int:
    """How many replicas the job has."""
    ranks = _job.ranks()
    return ranks[1] if ranks is not None else max(_number("ADAPTDL_NUM_REPLICAS", 1), 1)


def num_nodes() -> int:
    """How many nodes they are on."""
    ranks = _job.ranks()
    return ranks[2] if ranks is not None else _number("ADAPTDL_NUM_NODES", num_replicas())


def num_restarts() -> int:
    """How often the job was restarted. Changes in place are no restarts."""
    return _number("ADAPTDL_NUM_RESTARTS", 0)


def supervisor_url() -> Optional[str]:
    """Where AdaptDL's own package would ask for its peers; not used here. None: nowhere."""
    return _text("ADAPTDL_SUPERVISOR_URL")


def from_ray() -> bool:
    """Whether the program runs under Ray, which this package does not use. Always false."""
    return False
