"""Jobs from Python: submit, follow, wait, read logs, explain and cancel, over the cluster's public gRPC
interface.

    from adaptdl.client import Client

    with Client() as client:
        job = client.submit(["python", "train.py"], requirements="numpy\\n", max_replicas=4)
        print(client.wait(job.name).phase)

A Client finds cluster, token and certificate as the command `adaptdl` does. Needs the packages grpcio and
protobuf (3.20 or later, any version: nothing here was generated for one).
"""

from adaptdl.client import _protocol as _protocol  # first: it says which packages are missing
from adaptdl.client._client import Client
from adaptdl.client._errors import (
    AlreadyExistsError,
    ClientError,
    ConnectionFailedError,
    InvalidRequestError,
    JobNotFoundError,
    LimitReachedError,
    NotAllowedError,
    WaitTimeoutError,
    WrongStateError,
)
from adaptdl.client._types import (
    Code,
    Event,
    Explanation,
    HistoryPoint,
    Job,
    LogLine,
    Metric,
    Node,
    Progress,
    Replica,
)

__all__ = [
    "AlreadyExistsError",
    "Client",
    "ClientError",
    "Code",
    "ConnectionFailedError",
    "Event",
    "Explanation",
    "HistoryPoint",
    "InvalidRequestError",
    "Job",
    "JobNotFoundError",
    "LimitReachedError",
    "LogLine",
    "Metric",
    "Node",
    "NotAllowedError",
    "Progress",
    "Replica",
    "WaitTimeoutError",
    "WrongStateError",
]
