"""Jobs, events and log lines as plain values. Times are in UTC and aware, durations in seconds."""

import dataclasses
import datetime
from typing import Any, Dict, List, Optional

from adaptdl.client import _protocol

__all__ = ["Code", "Event", "Explanation", "HistoryPoint", "Job", "LogLine", "Metric", "Progress", "Replica"]

FINISHED = ("SUCCEEDED", "FAILED", "CANCELLED")


def _time(message: Any, field: str) -> Optional[datetime.datetime]:
    if not message.HasField(field):
        return None
    value = getattr(message, field)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return epoch + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)


def _seconds(message: Any, field: str) -> float:
    value = getattr(message, field)
    return float(value.seconds + value.nanos / 1e9)


@dataclasses.dataclass(frozen=True)
class Replica:
    """One training process."""

    id: str
    group: int
    rank: int
    node: str
    # "LAUNCHING", "RUNNING", "EXITED" or "LOST".
    state: str
    # Meaningful once it has exited, while signal is 0.
    exit_code: int
    signal: int
    # What went wrong. Empty: nothing.
    message: str


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a job is."""

    epoch: int
    total_epochs: int
    optimizer_steps: int
    # In [0, 1]; negative: unknown.
    fraction: float
    # Samples per second; 0: unknown.
    throughput: float
    batch_size: int
    local_batch_size: int
    accumulation_steps: int


@dataclasses.dataclass(frozen=True)
class Job:
    """A job as it was when the supervisor answered."""

    namespace: str
    name: str
    uid: str
    labels: Dict[str, str]
    command: List[str]
    # "PENDING", "STARTING", "RUNNING", "RESCALING", "STOPPING", "SUCCEEDED", "FAILED" or "CANCELLED".
    phase: str
    # Why it is in this phase: a word for programs, and the same for people.
    reason: str
    message: str
    # Node of each replica, by rank; and where it is being moved to.
    allocation: List[str]
    desired_allocation: List[str]
    replicas: List[Replica]
    group: int
    restarts: int
    rescales: int
    failures: int
    progress: Optional[Progress]
    submit_time: Optional[datetime.datetime]
    start_time: Optional[datetime.datetime]
    completion_time: Optional[datetime.datetime]
    estimated_completion_time: Optional[datetime.datetime]
    # Seconds with all replicas running.
    running_time: float
    # Why the newest checkpoint could not be written. Empty: it could.
    checkpoint_error: str
    # The protocol's message, for what is not above.
    raw: Any = dataclasses.field(repr=False, compare=False)

    @property
    def finished(self) -> bool:
        """Whether it has ended, in whichever way."""
        return self.phase in FINISHED

    @property
    def succeeded(self) -> bool:
        """Whether it has ended well."""
        return self.phase == "SUCCEEDED"


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that happened to a job."""

    id: int
    time: Optional[datetime.datetime]
    job: str
    # "NORMAL" or "WARNING".
    type: str
    reason: str
    message: str
    # Times that it happened.
    count: int
    group: int
    node: str
    replica_id: str
    replicas: int


@dataclasses.dataclass(frozen=True)
class Resources:
    """What a node holds, or what of it is taken."""

    cpu_millis: int
    memory_bytes: int
    gpus: int


@dataclasses.dataclass(frozen=True)
class Node:
    """A node of the cluster."""

    id: str
    # "READY", "DRAINING", "LOST", ...
    phase: str
    capacity: Resources
    # What replicas on it hold.
    allocated: Resources
    gpu_type: str
    labels: Dict[str, str]
    # The protocol's own message, with all that is not here.
    raw: Any = dataclasses.field(repr=False, compare=False)

    @property
    def ready(self) -> bool:
        """Whether it takes replicas."""
        return self.phase == "READY"


@dataclasses.dataclass(frozen=True)
class LogLine:
    """One line that a replica wrote, or a part of a very long one."""

    time: Optional[datetime.datetime]
    # "STDOUT" or "STDERR".
    source: str
    replica_id: str
    group: int
    rank: int
    # Without the line feed; bytes that are no UTF-8 are replaced.
    text: str
    # Whether the line goes on in the next part.
    partial: bool


@dataclasses.dataclass(frozen=True)
class Metric:
    """What a program reports of itself, over a span of time."""

    # The mean; not finite if that is what was reported last.
    value: float
    # Optimiser steps that were done at the last report.
    step: int


@dataclasses.dataclass(frozen=True)
class HistoryPoint:
    """What a job was like in a span of time: means over it, and counts at its end. 0: unknown, where it can't be 0."""

    begin: datetime.datetime
    end: datetime.datetime
    replicas: float
    batch_size: float
    local_batch_size: float
    accumulation_steps: float
    # Samples per second, and the same times the efficiency.
    throughput: float
    goodput: float
    efficiency: float
    gradient_noise_scale: float
    learning_rate_factor: float
    # Seconds of an optimiser step: what is computed, and what is waited for. None: unknown.
    compute_time: Optional[float]
    sync_time: Optional[float]
    data_time: Optional[float]
    optimizer_steps: int
    scale_invariant_steps: float
    # In [0, 1]; negative: unknown.
    fraction: float
    epoch: int
    # Of those that were reported in the span, by name: "loss" is what is minimised.
    metrics: Dict[str, Metric]


@dataclasses.dataclass(frozen=True)
class Code:
    """A folder that was brought to the supervisor, by its archive's content."""

    digest: str
    size: int


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Why a job has the replicas that it has. str() gives it as text."""

    job: Job
    # The allocator's reason. Empty: it has not decided yet.
    reason: str
    # What it adds to it, one sentence each.
    details: List[str]

    def __str__(self) -> str:
        job = self.job
        if job.finished:
            reason = "the job has ended and gets no more replicas" + (
                ": " + job.message if job.message else ""
            )
        else:
            reason = self.reason or "the allocator has not decided on this job yet"
        lines = [f"{job.namespace}/{job.name} is {job.phase} with {len(job.allocation)} replicas: {reason}"]
        if not job.finished and job.desired_allocation != job.allocation:
            lines.append(f"it gets {len(job.desired_allocation)}")
        if not job.finished:
            lines += self.details
        return "\n".join(lines)


def job_from(message: Any) -> Job:
    """The value of a protocol's Job."""
    status, template = message.status, message.spec.template
    progress = None
    if status.HasField("progress"):
        of = status.progress
        progress = Progress(
            of.epoch,
            of.total_epochs,
            of.optimizer_steps,
            of.fraction,
            of.throughput,
            of.total_batch_size,
            of.local_batch_size,
            of.accumulation_steps,
        )
    replicas = [
        Replica(
            of.replica_id,
            of.group,
            of.rank,
            of.node_id,
            _protocol.enum_name("ReplicaState", of.state),
            of.exit_code,
            of.signal,
            of.message,
        )
        for of in status.replicas
    ]
    return Job(
        namespace=message.namespace,
        name=message.name,
        uid=message.uid,
        labels=dict(message.labels),
        command=[*template.command, *template.args],
        phase=_protocol.enum_name("JobPhase", status.phase),
        reason=status.reason,
        message=status.message,
        allocation=list(status.allocation),
        desired_allocation=list(status.desired_allocation),
        replicas=replicas,
        group=status.group,
        restarts=status.restarts,
        rescales=status.rescales,
        failures=status.failures,
        progress=progress,
        submit_time=_time(status, "submit_time"),
        start_time=_time(status, "start_time"),
        completion_time=_time(status, "completion_time"),
        estimated_completion_time=_time(status, "estimated_completion_time"),
        running_time=_seconds(status, "running_time"),
        checkpoint_error=status.checkpoint_error,
        raw=message,
    )


def node_from(message: Any) -> Node:
    """The value of a protocol's Node."""

    def resources(of: Any) -> Resources:
        return Resources(of.cpu_millis, of.memory_bytes, of.gpus)

    return Node(
        message.node_id,
        _protocol.enum_name("NodePhase", message.status.phase),
        resources(message.capacity),
        resources(message.status.allocated),
        message.gpu_type,
        dict(message.labels),
        message,
    )


def event_from(message: Any) -> Event:
    """The value of a protocol's Event."""
    return Event(
        message.id,
        _time(message, "time"),
        message.job,
        _protocol.enum_name("EventType", message.type),
        message.reason,
        message.message,
        max(message.count, 1),
        message.group,
        message.node_id,
        message.replica_id,
        message.replicas,
    )


def point_from(message: Any) -> HistoryPoint:
    """The value of a protocol's HistoryPoint."""
    times = message.step_times if message.HasField("step_times") else None
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return HistoryPoint(
        begin=_time(message, "begin") or epoch,
        end=_time(message, "end") or epoch,
        replicas=message.replicas,
        batch_size=message.total_batch_size,
        local_batch_size=message.local_batch_size,
        accumulation_steps=message.accumulation_steps,
        throughput=message.throughput,
        goodput=message.goodput,
        efficiency=message.efficiency,
        gradient_noise_scale=message.gradient_noise_scale,
        learning_rate_factor=message.learning_rate_factor,
        compute_time=times.compute if times else None,
        sync_time=times.sync if times else None,
        data_time=times.data if times else None,
        optimizer_steps=message.optimizer_steps,
        scale_invariant_steps=message.scale_invariant_steps,
        fraction=message.fraction,
        epoch=message.epoch,
        metrics={metric.name: Metric(metric.value, metric.step) for metric in message.metrics},
    )


def line_from(message: Any) -> LogLine:
    """The value of a protocol's LogLine."""
    return LogLine(
        _time(message, "time"),
        _protocol.enum_name("LogSource", message.source),
        message.replica_id,
        message.group,
        message.rank,
        message.text.decode("utf-8", "replace"),
        message.partial,
    )
