"""The client itself: one unary call after the other, and streams that are taken up again."""

import datetime
import threading
import time
import uuid
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Union

import grpc

from adaptdl.client import _files, _folder, _protocol, _types
from adaptdl.client._errors import (
    ClientError,
    ConnectionFailedError,
    InvalidRequestError,
    JobNotFoundError,
    LimitReachedError,
    WaitTimeoutError,
    code_of,
    error_from,
)
from adaptdl.client._settings import Settings, find_settings

_RETRIES = 3
_FIRST_DELAY = 0.2
_LONGEST_DELAY = 2.0
# Streams are taken up again for so long, and a call waits at most so long in all when the server tells it to.
_LONGEST_OUTAGE = 60.0
_LONGEST_WAIT = 90.0
_PAGE_SIZE = 1000
_PIECE_BYTES = 1 << 20
# The upload of a folder goes on after these, too.
_INTERRUPTIONS = (grpc.StatusCode.ABORTED, grpc.StatusCode.DEADLINE_EXCEEDED)
_OUTAGES = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
_CHANNEL_OPTIONS = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
]


class Client:
    """A cluster's jobs. Finds the cluster as the command `adaptdl` does, unless it is told otherwise:

    `supervisor` is "host:port", or several, separated by commas; `ca_file` holds the cluster's authority;
    `token` or `token_file` say who the caller is; `insecure=True` does without TLS and token. `namespace` is
    that of jobs which are called by their name alone; "namespace/name" names another one. `call_timeout` is
    in seconds, for each call but streams.

    Thread-safe. Connects at the first call; close(), or a `with` block, ends the connection and all streams.
    Every failure is a ClientError.
    """

    def __init__(
        self,
        supervisor: Optional[str] = None,
        *,
        ca_file: Optional[str] = None,
        token: Optional[str] = None,
        token_file: Optional[str] = None,
        tls_server_name: Optional[str] = None,
        insecure: bool = False,
        namespace: str = "default",
        call_timeout: float = 10.0,
    ) -> None:
        self.namespace = namespace
        self._call_timeout = call_timeout
        self._settings: Settings = find_settings(
            supervisor, ca_file, token, token_file, tls_server_name, insecure
        )
        self._lock = threading.Lock()
        self._channels: Dict[int, grpc.Channel] = {}
        self._current = 0

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. A later call makes a new one."""
        with self._lock:
            channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            channel.close()

    def submit(
        self,
        command: Union[str, Sequence[str]],
        *,
        name: str = "",
        generate_name: str = "",
        namespace: str = "",
        min_replicas: int = 0,
        max_replicas: int = 0,
        allowed_replicas: Iterable[int] = (),
        priority: int = 0,
        max_restarts: Optional[int] = None,
        preemptible: bool = True,
        in_place: bool = True,
        cpus: float = 0,
        memory_bytes: int = 0,
        gpus: int = 0,
        env: Optional[Dict[str, str]] = None,
        labels: Optional[Dict[str, str]] = None,
        working_directory: str = "",
        python: Optional[str] = None,
        requirements: Optional[str] = None,
        grace_period: Optional[float] = None,
        folder: Optional[str] = None,
        code: Optional[_types.Code] = None,
        max_folder_bytes: int = _folder.MAX_BYTES,
        max_folder_files: int = _folder.MAX_FILES,
        gpu_types: Iterable[str] = (),
        node_selector: Optional[Dict[str, str]] = None,
        deadline: Optional[datetime.datetime] = None,
        suspend: bool = False,
        api_access: bool = False,
        start_from: str = "",
        image: str = "",
    ) -> _types.Job:
        """Submits a job whose replicas run this command: a list of words, or a text for a shell.

        Without `name` the system makes one up, which begins with `generate_name`. `cpus`, `memory_bytes` and
        `gpus` are what each replica asks for. `python` ("python3") asks for a virtual environment, and
        `requirements` is the text of a requirements file for it, which needs no `python`. Fields that are
        left out have the defaults of job files.

        `folder` goes along: each node gets a copy, in which the job starts, or in a `working_directory` that
        is relative to it. What .gitignore and .adaptdlignore in it name stays here. It is sent once, as long
        as it does not change. `code` is one that upload() has sent before.

        The nodes have GPUs of one of `gpu_types`, and all labels of `node_selector`; the job is to be done by
        `deadline`, which has a time zone. With `suspend` it is held from the start, until resume(). With
        `api_access` a Client() of its program finds this cluster, as a user of the job's namespace. It begins with the
        newest checkpoint of the job `start_from`, as long as it has none of its own. Where replicas are pods, they are of
        the container `image`.
        """
        request = _protocol.message_class("SubmitJobRequest")(request_id=str(uuid.uuid4()))
        job, spec, template = request.job, request.job.spec, request.job.spec.template
        job.namespace, job.name = namespace or self.namespace, name
        if not name:
            request.generate_name = generate_name or "job-"
        job.labels.update(labels or {})
        spec.min_replicas, spec.max_replicas, spec.priority = min_replicas, max_replicas, priority
        spec.allowed_replicas.extend(allowed_replicas)
        spec.preemptible, spec.suspend = preemptible, suspend
        spec.rescale = _protocol.enum_number("RescaleMode", "IN_PLACE" if in_place else "RESTART")
        if max_restarts is not None:
            spec.max_restarts = max_restarts
        template.command.extend(["sh", "-c", command] if isinstance(command, str) else command)
        for variable, value in (env or {}).items():
            template.env.add(name=variable, value=value)
        template.working_directory, template.api_access, template.image = working_directory, api_access, image
        template.resources.cpu_millis = round(cpus * 1000)
        template.resources.memory_bytes, template.resources.gpus = memory_bytes, gpus
        if python is not None or requirements is not None:
            template.python.interpreter = python or "python3"
            template.python.requirements = requirements or ""
        if grace_period is not None:
            template.termination_grace_period.seconds = int(grace_period)
            template.termination_grace_period.nanos = int(grace_period % 1 * 1e9)
        template.placement.gpu_types.extend(gpu_types)
        template.placement.node_selector.update(node_selector or {})
        if deadline is not None:
            if deadline.tzinfo is None:
                raise InvalidRequestError("deadline has no time zone", "INVALID_ARGUMENT")
            spec.deadline.FromDatetime(deadline.astimezone(datetime.timezone.utc).replace(tzinfo=None))
        if start_from:
            spec.start_from.job = start_from
        if folder is not None:
            code = self.upload(
                folder, namespace=job.namespace, max_bytes=max_folder_bytes, max_files=max_folder_files
            )
        if code is not None:
            template.code.digest, template.code.size = code.digest, code.size
        return _types.job_from(self._call("SubmitJob", request).job)

    def upload(
        self,
        folder: str,
        *,
        namespace: str = "",
        max_bytes: int = _folder.MAX_BYTES,
        max_files: int = _folder.MAX_FILES,
    ) -> _types.Code:
        """Brings a folder to the supervisor, for jobs that name it by submit(code=...). It stays as long as one does,
        and for a while without."""
        with _folder.pack(folder, max_bytes, max_files) as packed:
            self._upload(namespace or self.namespace, packed)
            return _types.Code(packed.digest, packed.size)

    def _upload(self, namespace: str, packed: _folder.PackedFolder) -> None:
        """Brings the archive to the supervisor, from where it is there; again when the connection breaks."""
        stat = _protocol.message_class("StatCodeRequest")(namespace=namespace, digest=packed.digest)
        most, give_up, delay, healed = -1, 0.0, _FIRST_DELAY, False
        failure: Optional[ClientError] = None
        while True:
            there = self._call("StatCode", stat, service="CodeService")
            if there.complete:
                return
            if packed.size > there.limit:
                raise LimitReachedError(
                    f"the packed folder has {packed.size} bytes, and the supervisor takes {there.limit}: "
                    "leave out what the job does not need by lines in .adaptdlignore",
                    "RESOURCE_EXHAUSTED",
                )
            if there.received > most:
                most, delay = there.received, _FIRST_DELAY
                give_up = time.monotonic() + _LONGEST_OUTAGE
            elif failure is not None and time.monotonic() >= give_up:
                raise failure
            number, channel = self._channel()
            method = _protocol.method("CodeService", "UploadCode")
            try:
                if method.on(channel)(_pieces(namespace, packed, there.received)).complete:
                    return
                failure = ConnectionFailedError("the supervisor has only a part of the folder", "ABORTED")
            except grpc.RpcError as error:
                failure = error_from(error, ",".join(self._settings.addresses))
                # What was there before may have been damaged by a crash, and is gone now.
                if error.code() == grpc.StatusCode.INVALID_ARGUMENT and there.received > 0 and not healed:
                    healed, most = True, -1
                elif code_of(error) not in (*_OUTAGES, *_INTERRUPTIONS):
                    raise failure from None
            self._go_on(number)
            time.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)

    def get(self, job: str) -> _types.Job:
        """The job as it is now."""
        return _types.job_from(self._call("GetJob", self._request("GetJobRequest", job)).job)

    def list(
        self, *, namespace: str = "", phases: Iterable[str] = (), labels: Optional[Dict[str, str]] = None
    ) -> List[_types.Job]:
        """Jobs in order of submission, in one of these phases and with these labels; namespace "*": all."""
        request = _protocol.message_class("ListJobsRequest")(
            namespace=namespace or self.namespace, page_size=_PAGE_SIZE
        )
        request.phases.extend(_protocol.enum_number("JobPhase", phase) for phase in phases)
        request.labels.update(labels or {})
        return [_types.job_from(job) for job in self._pages("ListJobs", request, "jobs")]

    def nodes(self) -> List[_types.Node]:
        """The cluster's nodes, by name."""
        request = _protocol.message_class("ListNodesRequest")(page_size=_PAGE_SIZE)
        return [
            _types.node_from(node) for node in self._pages("ListNodes", request, "nodes", service="NodeService")
        ]

    def events(self, job: str = "") -> List[_types.Event]:
        """What happened to the job, or to all of the namespace, in order."""
        request = self._request("ListEventsRequest", job)
        request.page_size = _PAGE_SIZE
        return [_types.event_from(event) for event in self._pages("ListEvents", request, "events")]

    def history(
        self, job: str, *, max_points: int = 0, after: Optional[datetime.datetime] = None
    ) -> List[_types.HistoryPoint]:
        """How the job has come to be as it is, in order of time: at most so many points (0: 500; at most 2000),
        of those that end after `after`, a time with its zone."""
        request = self._request("GetJobHistoryRequest", job)
        request.max_points = max_points
        if after is not None:
            request.after.FromDatetime(after.astimezone(datetime.timezone.utc).replace(tzinfo=None))
            # Ends of points are told to the nanosecond, and datetime has cut this one to the microsecond: without
            # what it cut off, the point that ends there would be given again and again.
            request.after.nanos += 999
        response = self._call("GetJobHistory", request, service="HistoryService")
        return [_types.point_from(point) for point in response.points]

    def explain(self, job: str) -> _types.Explanation:
        """Why the job has the replicas that it has."""
        value = self.get(job)
        status = value.raw.status
        return _types.Explanation(value, status.allocation_reason, list(status.allocation_explanation))

    def update(
        self,
        job: str,
        min_replicas: Optional[int] = None,
        max_replicas: Optional[int] = None,
        priority: Optional[int] = None,
    ) -> _types.Job:
        """Changes the job's bounds or priority; what is left out stays. WrongStateError: it has finished."""
        wishes = {"min_replicas": min_replicas, "max_replicas": max_replicas, "priority": priority}
        request = self._change("UpdateJobRequest", job)
        for name, value in wishes.items():
            if value is not None:
                setattr(request, name, value)
        return _types.job_from(self._call("UpdateJob", request).job)

    def suspend(self, job: str) -> _types.Job:
        """Holds the job: it gives up its replicas, and gets none until it is resumed."""
        return self._hold(job, True)

    def resume(self, job: str) -> _types.Job:
        """Lets a held job go on from where it was."""
        return self._hold(job, False)

    def _hold(self, job, held):
        request = self._change("UpdateJobRequest", job)
        request.suspend = held
        return _types.job_from(self._call("UpdateJob", request).job)

    def cancel(self, job: str) -> _types.Job:
        """Asks the job to stop for good; wait() waits for that. WrongStateError: it has finished."""
        return _types.job_from(self._call("CancelJob", self._change("CancelJobRequest", job)).job)

    def delete(self, job: str) -> None:
        """Removes a finished job with its events, logs and files. WrongStateError: it has not finished."""
        self._call("DeleteJob", self._change("DeleteJobRequest", job))

    def follow(self, job: str, timeout: Optional[float] = None) -> Iterator[_types.Job]:
        """The job as it is now, then every change of it, the last one when it has finished.

        Who reads slowly misses states between, never the last one. WaitTimeoutError: it has not finished
        after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        request = self._request("WatchJobsRequest", job)
        last = self.get(job)  # tells a supervisor that was never there from one that is away
        yield last
        while not last.finished:
            try:
                for response in self._stream("WatchJobs", request, deadline):
                    if response.deleted:
                        raise JobNotFoundError(f"job {last.namespace}/{last.name} was deleted", "NOT_FOUND")
                    if not response.HasField("job"):
                        continue
                    changed = _types.job_from(response.job)
                    if changed.raw != last.raw:
                        last = changed
                        yield last
                    if last.finished:
                        return
            except _DeadlinePassed:
                raise WaitTimeoutError(
                    f"job {last.namespace}/{last.name} is still {last.phase} after {timeout} s",
                    "DEADLINE_EXCEEDED",
                ) from None

    def wait(self, job: str, timeout: Optional[float] = None) -> _types.Job:
        """The job when it has finished. WaitTimeoutError: it has not after `timeout` seconds; it goes on."""
        last = None
        for last in self.follow(job, timeout):
            pass
        assert last is not None
        return last

    def logs(
        self,
        job: str,
        *,
        follow: bool = False,
        rank: Optional[int] = None,
        group: int = 0,
        tail_lines: int = 0,
        pattern: str = "",
    ) -> Iterator[_types.LogLine]:
        """What the job's replicas wrote, over all groups; with `follow`, on until it has finished.

        Of one rank or group only, where given; of each replica only the last lines; of these, with `pattern`,
        a regular expression of RE2's, those in which it occurs. What can't be read, since its node is gone,
        say, is a line with source "UNSPECIFIED" that says so.
        """
        request = self._request("StreamLogsRequest", job)
        request.follow, request.group, request.tail_lines = follow, group, tail_lines
        request.pattern = pattern
        if rank is not None:
            request.rank = rank
        self.get(job)
        seen = _SeenLines()
        for response in self._stream("StreamLogs", request, None, again=follow, on_restart=seen.restart):
            for line in response.lines:
                if seen.is_new(line):
                    yield _types.line_from(line)
            if response.warning:
                yield _types.LogLine(None, "UNSPECIFIED", "", 0, 0, response.warning, False)

    def copy(
        self,
        job: str,
        folder: str,
        destination: str,
        *,
        on_bytes: Optional[Callable[[int], None]] = None,
    ) -> int:
        """Copies the job's folder "checkpoint" or "share", also after its end, into the folder `destination`, which
        is made, or must be empty. `on_bytes` is told how many bytes have come. Gives the number of files.

        JobNotFoundError: there is no such job, or it has no such files.
        """
        if folder not in _files.FOLDERS:
            raise InvalidRequestError(f'folder "{folder}" is not valid: give share or checkpoint', "INVALID_ARGUMENT")
        request = self._request("ReadFilesRequest", job)
        request.folder = _protocol.enum_number("JobFolder", folder.upper())
        chunks = (response.chunk for response in self._stream("ReadFiles", request, None, again=False))
        return _files.write(_files.new_folder(destination), chunks, on_bytes)

    def _request(self, name: str, job: str) -> Any:
        """A request about "name" or "namespace/name"; the empty name is allowed where all jobs are meant."""
        namespace, separator, job_name = job.rpartition("/")
        if (separator and not (namespace and job_name)) or "/" in namespace:
            raise InvalidRequestError(f'"{job}" is no job: give NAME or NAMESPACE/NAME', "INVALID_ARGUMENT")
        return _protocol.message_class(name)(namespace=namespace or self.namespace, name=job_name)

    def _change(self, name: str, job: str) -> Any:
        """The same with an id, by which a repeated call does nothing twice."""
        request = self._request(name, job)
        request.request_id = str(uuid.uuid4())
        return request

    def _pages(self, name: str, request: Any, field: str, service: str = "JobService") -> Iterator[Any]:
        while True:
            response = self._call(name, request, service)
            yield from getattr(response, field)
            request.page_token = response.next_page_token
            if not request.page_token:
                return

    def _channel(self) -> "tuple[int, grpc.Channel]":
        """The supervisor to use now, and a connection to it."""
        with self._lock:
            number = self._current
            if number not in self._channels:
                address = self._settings.addresses[number]
                self._channels[number] = _open(address, self._settings)
            return number, self._channels[number]

    def _go_on(self, failed: int) -> None:
        """That one did not answer: the next is tried, unless another thread has seen to it."""
        with self._lock:
            if self._current == failed:
                self._current = (failed + 1) % len(self._settings.addresses)

    def _call(self, name: str, request: Any, service: str = "JobService") -> Any:
        """A unary call, repeated while the supervisor can't be reached, and as it tells."""
        method = _protocol.method(service, name)
        attempts = _RETRIES + 1 if len(self._settings.addresses) == 1 else 4 * len(self._settings.addresses)
        waited, delay = 0.0, _FIRST_DELAY
        while True:
            number, channel = self._channel()
            try:
                return method.on(channel)(request, timeout=self._call_timeout)
            except grpc.RpcError as error:
                told = _protocol.retry_delay(error.trailing_metadata() or ())
                if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and told is not None:
                    told = max(told, 0.1)
                    if waited + told <= _LONGEST_WAIT:
                        waited += told
                        time.sleep(told)
                        continue
                attempts -= 1
                if code_of(error) != grpc.StatusCode.UNAVAILABLE or attempts == 0:
                    raise error_from(error, ",".join(self._settings.addresses)) from None
                self._go_on(number)
                time.sleep(delay)
                delay = min(2 * delay, _LONGEST_DELAY)

    def _stream(
        self, name: str, request: Any, deadline: Optional[float], again: bool = True, on_restart: Any = None
    ) -> Iterator[Any]:
        """The messages of a stream, which is opened anew when it breaks. _DeadlinePassed: time is over."""
        method = _protocol.method("JobService", name)
        outage: Optional[float] = None
        delay = _FIRST_DELAY
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise _DeadlinePassed()
            number, channel = self._channel()
            call = method.on(channel)(request, timeout=left)
            try:
                for response in call:
                    outage, delay = None, _FIRST_DELAY
                    yield response
                if name in ("StreamLogs", "ReadFiles"):
                    return
                failure: ClientError = ConnectionFailedError("the supervisor ended the stream", "UNAVAILABLE")
            except grpc.RpcError as error:
                if deadline is not None and error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise _DeadlinePassed() from None
                failure = error_from(error, ",".join(self._settings.addresses))
                if not again or code_of(error) not in _OUTAGES:
                    raise failure from None
            finally:
                call.cancel()
            now = time.monotonic()
            outage = now if outage is None else outage
            if now - outage > _LONGEST_OUTAGE:
                raise failure
            self._go_on(number)
            time.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)
            if on_restart is not None:
                on_restart()
                request.tail_lines = 0  # what was left out then has older times


def _pieces(namespace: str, packed: _folder.PackedFolder, offset: int) -> Iterator[Any]:
    """The archive from `offset` on, as messages."""
    make = _protocol.message_class("UploadCodeRequest")
    packed.file.seek(offset)
    first = {"namespace": namespace, "digest": packed.digest, "size": packed.size, "offset": offset}
    for data in iter(lambda: packed.file.read(_PIECE_BYTES), b""):
        yield make(data=data, **first)
        first = {}


class _DeadlinePassed(Exception):
    """The caller's time is over."""


class _SeenLines:
    """Leaves out the lines that an earlier stream of the same request has given."""

    def __init__(self) -> None:
        # By replica and source: the time of the last line, how many lines bore
        # it, and how many of these are to be skipped.
        self._positions: Dict[Any, List[Any]] = {}

    def restart(self) -> None:
        """The stream begins from its start again."""
        for position in self._positions.values():
            position[2] = position[1]

    def is_new(self, line: Any) -> bool:
        """Whether this line was not given before."""
        moment = (line.time.seconds, line.time.nanos)
        position = self._positions.setdefault((line.replica_id, line.source), [(-1, 0), 0, 0])
        if moment < position[0]:
            return False
        if moment == position[0] and position[2] > 0:
            position[2] -= 1
            return False
        position[1] = position[1] + 1 if moment == position[0] else 1
        position[0], position[2] = moment, 0
        return True


def _open(address: str, settings: Settings) -> grpc.Channel:
    if settings.ca is None:
        return grpc.insecure_channel(address, _CHANNEL_OPTIONS)
    credentials = grpc.ssl_channel_credentials(settings.ca)
    if settings.token:
        credentials = grpc.composite_channel_credentials(
            credentials, grpc.access_token_call_credentials(settings.token)
        )
    # Certificates name services, not hosts.
    options = [*_CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", settings.server_name)]
    return grpc.secure_channel(address, credentials, options)
