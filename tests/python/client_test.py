"""adaptdl.client against a cluster of the real programs, and every block of docs/python-client.md.

client_test.py BUILD_FOLDER
"""

import concurrent.futures
import datetime
import json
import os
import pathlib
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(BUILD / "python"))

import grpc  # noqa: E402
from adaptdl.client import (  # noqa: E402
    AlreadyExistsError,
    Client,
    ClientError,
    ConnectionFailedError,
    InvalidRequestError,
    JobNotFoundError,
    NotAllowedError,
    WaitTimeoutError,
    WrongStateError,
)
from adaptdl.client import _folder, _protocol, _settings  # noqa: E402
from adaptdl.client._client import _SeenLines  # noqa: E402

PATIENCE = 120
VARIABLES = ("SUPERVISOR_ADDRESS", "CA_FILE", "TOKEN", "TOKEN_FILE", "TLS_SERVER_NAME", "INSECURE")


class Cluster:
    """`adaptdl cluster up` in a folder of its own."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="adaptdl-client-")
        os.environ["ADAPTDL_HOME"] = self.folder + "/state"
        for variable in VARIABLES:  # they would win
            os.environ.pop("ADAPTDL_" + variable, None)

    def adaptdl(self, *words):
        done = subprocess.run(
            [BUILD / "bin/adaptdl", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        if done.returncode:
            raise RuntimeError(f"{words} failed: {done.stdout}")
        return done.stdout

    def up(self, *flags):
        self.adaptdl("cluster", "up", *flags)

    def kill_supervisor(self):
        text = pathlib.Path(self.folder, "state/run/supervisor.pid").read_text()
        os.kill(int(re.search(r"\d+", text).group()), signal.SIGKILL)

    def remove(self):
        subprocess.run(
            [BUILD / "bin/adaptdl", "cluster", "down", "--force", "--purge"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
        )
        shutil.rmtree(self.folder, ignore_errors=True)


CLUSTER = Cluster()


def setUpModule():
    CLUSTER.up("--workers", "1", "--port", "0")


def tearDownModule():
    CLUSTER.remove()


class ClientTest(unittest.TestCase):
    def setUp(self):
        self.client = Client()
        self.addCleanup(self.client.close)

    def finished(self, name):
        job = self.client.wait(name, timeout=PATIENCE)
        self.assertTrue(job.finished)
        return job

    def test_a_job_from_its_submission_to_its_end(self):
        job = self.client.submit(
            ["sh", "-c", "echo out; echo err >&2; test $MODE = fast"],
            name="whole",
            max_replicas=1,
            env={"MODE": "fast"},
            labels={"team": "vision"},
            cpus=0.5,
            max_restarts=0,
            grace_period=1.5,
            priority=3,
        )
        self.assertEqual(
            (job.namespace, job.name, job.phase, job.labels),
            ("default", "whole", "PENDING", {"team": "vision"}),
        )
        spec = job.raw.spec
        self.assertEqual((spec.template.resources.cpu_millis, spec.priority, spec.max_restarts), (500, 3, 0))
        self.assertEqual(spec.template.termination_grace_period.nanos, 500_000_000)
        phases = [job.phase for job in self.client.follow("whole", timeout=PATIENCE)]
        self.assertEqual(phases[-1], "SUCCEEDED")
        job = self.finished("default/whole")
        self.assertTrue(job.succeeded)
        self.assertEqual(job.command, ["sh", "-c", "echo out; echo err >&2; test $MODE = fast"])
        self.assertLess(job.submit_time, job.completion_time)
        self.assertEqual(
            [
                (line.source, line.text, line.rank)
                for line in sorted(self.client.logs("whole"), key=lambda line: line.source)
            ],
            [("STDERR", "err", 0), ("STDOUT", "out", 0)],
        )
        self.assertEqual([line.text for line in self.client.logs("whole", rank=1)], [])
        self.assertIn("Submitted", [event.reason for event in self.client.events("whole")])
        node = self.client.nodes()[0]
        self.assertTrue(node.ready, node)
        self.assertGreater(node.capacity.cpu_millis, 0)
        self.assertEqual(
            [job.name for job in self.client.list(labels={"team": "vision"}, phases=["SUCCEEDED"])], ["whole"]
        )
        self.assertEqual(self.client.list(phases=["FAILED"], labels={"team": "vision"}), [])
        self.assertIn("has ended", str(self.client.explain("whole")))
        history = self.client.history("whole")
        self.assertEqual([point.begin for point in history], sorted(point.begin for point in history))
        self.assertLessEqual(job.submit_time - history[0].begin, datetime.timedelta(seconds=1))
        # What was kept meanwhile of the last moments, and nothing else.
        for point in self.client.history("whole", after=history[-1].end):
            self.assertGreaterEqual(point.begin, history[-1].end)
        self.client.delete("whole")
        with self.assertRaises(JobNotFoundError):
            self.client.get("whole")

    def test_a_failure_has_its_reason(self):
        self.client.submit("exit 7", name="fails", max_restarts=0, max_replicas=1)
        job = self.finished("fails")
        self.assertEqual(job.phase, "FAILED")
        self.assertIn("7", job.message)
        self.assertFalse(job.succeeded)

    def test_cancel_and_explain_while_it_runs(self):
        self.client.submit("echo begun; exec sleep 1000", name="sleeper", max_replicas=1)
        with self.assertRaises(WaitTimeoutError) as timeout:
            self.client.wait("sleeper", timeout=0.3)
        self.assertIsInstance(timeout.exception, TimeoutError)
        for job in self.client.follow("sleeper", timeout=PATIENCE):
            if job.phase == "RUNNING":
                break
        explanation = self.client.explain("sleeper")
        self.assertTrue(explanation.reason)
        self.assertIn("default/sleeper is RUNNING with 1 replicas", str(explanation))
        self.assertEqual(next(self.client.logs("sleeper", follow=True)).text, "begun")
        self.client.cancel("sleeper")
        self.assertEqual(self.finished("sleeper").phase, "CANCELLED")
        with self.assertRaises(WrongStateError):
            self.client.cancel("sleeper")

    def test_a_virtual_environment(self):
        self.client.submit(
            "python -c 'import sys; print(sys.prefix != sys.base_prefix)'",
            name="environment",
            python="/usr/bin/python3",
            max_replicas=1,
            max_restarts=0,
        )
        job = self.finished("environment")
        self.assertEqual(
            (job.phase, [line.text for line in self.client.logs("environment")]), ("SUCCEEDED", ["True"])
        )

    def test_errors_have_the_servers_text_and_a_type(self):
        self.client.submit(["true"], name="taken", max_replicas=1)
        with self.assertRaisesRegex(AlreadyExistsError, "taken") as taken:
            self.client.submit(["true"], name="taken")
        self.assertEqual(taken.exception.code, "ALREADY_EXISTS")
        with self.assertRaisesRegex(InvalidRequestError, "spec.min_replicas"):
            self.client.submit(["true"], min_replicas=-1)
        with self.assertRaisesRegex(InvalidRequestError, "requirements, line 1"):
            self.client.submit(["true"], requirements="-r more.txt")
        with self.assertRaisesRegex(JobNotFoundError, "no-such-job"):
            self.client.get("no-such-job")
        with self.assertRaises(JobNotFoundError):
            next(self.client.logs("no-such-job", follow=True))
        with self.assertRaisesRegex(InvalidRequestError, "is no job"):
            self.client.get("a/b/c")
        with self.assertRaisesRegex(ValueError, "'DONE' is none of PENDING"):
            self.client.list(phases=["DONE"])
        self.finished("taken")

    def test_who_has_no_token_is_not_let_in(self):
        ca = os.environ["ADAPTDL_HOME"] + "/security/ca.pem"
        address = self.client._settings.addresses[0]
        with mock.patch.dict(os.environ, {"ADAPTDL_HOME": "/nonexistent"}):
            with Client(address, ca_file=ca) as stranger, self.assertRaises(NotAllowedError):
                stranger.list()
            with Client(address, ca_file=ca, token="wrong") as stranger, self.assertRaises(PermissionError):
                stranger.list()
            with self.assertRaisesRegex(InvalidRequestError, "nothing tells how to make sure"):
                Client(address)

    def test_a_supervisor_that_is_not_there_is_told_soon(self):
        with Client("127.0.0.1:1", insecure=True) as client:
            with self.assertRaisesRegex(ConnectionFailedError, "unreachable at 127.0.0.1:1"):
                client.get("a")
            with self.assertRaises(ConnectionError):
                client.wait("a")

    def test_a_connection_that_breaks_in_a_call_is_made_again(self):
        calls = []

        def answer(_, context):
            calls.append(1)
            if len(calls) < 3:  # as gRPC itself tells of it
                context.abort(grpc.StatusCode.UNKNOWN, "Stream removed")
            return _protocol.message_class("GetJobResponse")()

        method = _protocol.method("JobService", "GetJob")
        handler = grpc.unary_unary_rpc_method_handler(answer, method.request.FromString, lambda message: message.SerializeToString())
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("adaptdl.v1.JobService", {"GetJob": handler})])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)
        with Client(f"127.0.0.1:{port}", insecure=True) as client:
            client.get("a")
        self.assertEqual(len(calls), 3)

    def test_of_several_supervisors_the_one_that_answers_is_found(self):
        settings = self.client._settings
        os.environ["ADAPTDL_TOKEN_FILE"] = next(
            pathlib.Path(os.environ["ADAPTDL_HOME"]).glob("security/**/*.token")
        ).as_posix()
        self.addCleanup(os.environ.pop, "ADAPTDL_TOKEN_FILE")
        ca = os.environ["ADAPTDL_HOME"] + "/security/ca.pem"
        with Client("127.0.0.1:1," + settings.addresses[0], ca_file=ca) as client:
            self.assertIsInstance(client.list(), list)

    def test_streams_outlive_the_supervisor(self):
        folder = pathlib.Path(CLUSTER.folder)
        self.client.submit(
            f"echo first; while [ ! -e {folder}/go ]; do sleep 0.05; done; echo second; echo third",
            name="outlives",
            max_replicas=1,
        )
        lines, phases = [], []
        has_line, has_phase = threading.Event(), threading.Event()

        def read():
            for line in self.client.logs("outlives", follow=True):
                lines.append(line.text)
                has_line.set()

        def follow():
            for job in self.client.follow("outlives", timeout=PATIENCE):
                phases.append(job.phase)
                has_phase.set()

        reader, follower = threading.Thread(target=read), threading.Thread(target=follow)
        for thread in (reader, follower):
            thread.start()
        for event in (has_line, has_phase):
            self.assertTrue(event.wait(PATIENCE))
        CLUSTER.kill_supervisor()
        CLUSTER.up()
        (folder / "go").touch()
        for thread in (reader, follower):
            thread.join(PATIENCE)
            self.assertFalse(thread.is_alive())
        self.assertEqual(lines, ["first", "second", "third"])
        self.assertEqual(phases[-1], "SUCCEEDED")

    def test_another_program_may_have_the_protocols_modules(self):
        code = (
            "import sys; sys.path[:0] = sys.argv[1:]\n"
            "from adaptdl.client import Client\n"
            "from google.protobuf import descriptor_pb2, descriptor_pool\n"
            "file = descriptor_pb2.FileDescriptorProto(name='adaptdl/v1/job.proto', package='adaptdl.v1')\n"
            "file.message_type.add(name='Job').field.add(name='other', number=1, type=9, label=1)\n"
            "descriptor_pool.Default().AddSerializedFile(file.SerializeToString())\n"
            "print(type(Client().list()).__name__)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, BUILD / "python"],
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
        )
        self.assertEqual((done.returncode, done.stdout), (0, "list\n"))

    def test_every_block_of_the_document_runs(self):
        blocks = re.findall(
            r"^```python\n(.*?)^```", (ROOT / "docs/python-client.md").read_text(), re.M | re.S
        )
        self.assertGreaterEqual(len(blocks), 4)
        code = "\n".join(blocks)
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            cwd=CLUSTER.folder,
            env={**os.environ, "PYTHONPATH": str(BUILD / "python")},
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        for text in ("SUCCEEDED", "[0] 42", "[0] in /", "CANCELLED", "['answer']", "NOT_FOUND"):
            self.assertIn(text, done.stdout, done.stdout)


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="adaptdl-folder-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.client = Client()
        self.addCleanup(self.client.close)

    def write(self, **files):
        for name, text in files.items():
            path = self.folder / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def test_the_same_files_travel_as_with_the_command(self):
        rules = "*.bin\n!keep.bin\n/top/\na/**/b\nx?[!0-9]\n**/deep/*.t\n\\#odd\n[[:upper:]]*.z\nspace \n"
        self.write(_dot_gitignore=rules, _dot_adaptdlignore="!c.bin\nlast\n", sub___dot_gitignore="!*.bin\n/only\n")
        names = (
            "a.bin keep.bin c.bin top/x sub/top/x a/b a/i/j/b a/c xya xy1 deep/u.t deep/n/u.t q/deep/u.t #odd "
            "A.z a.z space last sub/last sub/a.bin sub/only sub/n/only m.pyc sub/__pycache__/y .git/HEAD .venv/z "
            "env/pyvenv.cfg env/lib/m.py "
            "train.py"
        )
        for name in names.split():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(name)
        (self.folder / "link").symlink_to("sub/a.bin")
        words = ("--code", str(self.folder), "--dry-run", "-o", "json", "--", "true")
        listed = json.loads(CLUSTER.adaptdl("submit", *words))
        entries = _folder.scan(str(self.folder))
        ours = [entry.path for entry in entries if not stat.S_ISDIR(entry.info.st_mode)]
        self.assertEqual([file["path"] for file in listed["code"]["files"]], ours)
        self.assertIn("keep.bin", ours)
        self.assertNotIn("a.bin", ours)

    def test_the_same_files_are_the_same_archive(self):
        self.write(a="1", b__c="2")
        with _folder.pack(str(self.folder)) as first:
            os.utime(self.folder / "a", (1, 1))
            with _folder.pack(str(self.folder)) as second:
                self.assertEqual(first.digest, second.digest)
            (self.folder / "a").chmod(0o755)
            with _folder.pack(str(self.folder)) as third:
                self.assertNotEqual(first.digest, third.digest)

    def test_what_cannot_travel_is_refused_by_name(self):
        self.write(data__big="x" * 5000, a="1")
        with self.assertRaisesRegex(InvalidRequestError, '"data/" .5000.*adaptdlignore'):
            self.client.submit("true", folder=str(self.folder), max_folder_bytes=4000)
        with self.assertRaisesRegex(InvalidRequestError, "3 files and folders, more than max_folder_files=2"):
            self.client.submit("true", folder=str(self.folder), max_folder_files=2)
        for target in ("/etc/passwd", "../x", "data/../../x"):
            (self.folder / "away").symlink_to(target)
            with self.assertRaisesRegex(InvalidRequestError, f'"away" is a symbolic link to "{target}"'):
                self.client.submit("true", folder=str(self.folder))
            (self.folder / "away").unlink()
        with self.assertRaises(InvalidRequestError):
            self.client.submit("true", folder=str(self.folder / "none"))

    def test_an_upload_goes_on_where_it_broke(self):
        (self.folder / "noise").write_bytes(random.Random(1).randbytes(3 << 20))
        self.write(count_dot_py="import os; print(os.path.getsize('noise'))")
        with _folder.pack(str(self.folder)) as packed:
            message = _protocol.message_class("UploadCodeRequest")
            packed.file.seek(0)
            data = packed.file.read(1 << 20)
            first = message(namespace="default", digest=packed.digest, size=packed.size, data=data)
            half = _protocol.method("CodeService", "UploadCode").on(self.client._channel()[1])(iter([first]))
            self.assertEqual((half.received, half.complete), (1 << 20, False))
        job = self.client.submit(
            [sys.executable, "count.py"],
            name="resumed",
            folder=str(self.folder),
            max_replicas=1,
            deadline=datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc),
        )
        self.assertEqual(job.raw.spec.template.code.digest, packed.digest)
        self.assertEqual(job.raw.spec.deadline.seconds, 1_893_456_000)
        self.assertTrue(self.client.wait("resumed", timeout=PATIENCE).succeeded)
        self.assertEqual([line.text for line in self.client.logs("resumed")], [str(3 << 20)])


class SettingsTest(unittest.TestCase):
    def find(self, environment, **arguments):
        given = dict.fromkeys(("supervisor", "ca_file", "token", "token_file", "server_name"))
        with mock.patch.dict(os.environ, {"ADAPTDL_HOME": "/nonexistent", **environment}):
            return _settings.find_settings(**{**given, "insecure": False, **arguments})

    def test_the_environment_is_read_as_the_command_reads_it(self):
        with tempfile.TemporaryDirectory() as folder:
            ca, token = pathlib.Path(folder, "ca.pem"), pathlib.Path(folder, "token")
            ca.write_text("the authority")
            token.write_text("secret\n")
            environment = {
                "ADAPTDL_SUPERVISOR_ADDRESS": "a:1,b:2",
                "ADAPTDL_CA_FILE": str(ca),
                "ADAPTDL_TOKEN_FILE": str(token),
                "ADAPTDL_TLS_SERVER_NAME": "name",
            }
            self.assertEqual(self.find(environment), (["a:1", "b:2"], b"the authority", "secret", "name"))
            self.assertEqual(self.find({**environment, "ADAPTDL_TOKEN": "other"}).token, "other")
            self.assertEqual(self.find(environment, supervisor="c:3", token="mine").addresses, ["c:3"])
            token.write_text("two words")
            with self.assertRaisesRegex(InvalidRequestError, "a token and nothing else"):
                self.find(environment)
        self.assertEqual(
            self.find({"ADAPTDL_INSECURE": "1"}), (["127.0.0.1:7100"], None, "", "supervisor.adaptdl")
        )
        with self.assertRaisesRegex(ClientError, "can't be read"):
            self.find({}, ca_file="/nonexistent/ca.pem")
        with self.assertRaisesRegex(InvalidRequestError, "give host:port"):
            self.find({}, supervisor="nowhere", insecure=True)


class SeenLinesTest(unittest.TestCase):
    def test_a_stream_that_begins_again_gives_each_line_once(self):
        line_class = _protocol.message_class("LogLine")

        def line(replica, seconds, text):
            made = line_class(replica_id=replica, text=text)
            made.time.seconds = seconds
            return made

        lines = [
            line("a", 1, b"1"),
            line("a", 2, b"2"),
            line("a", 2, b"3"),
            line("b", 1, b"4"),
            line("a", 2, b"5"),
            line("b", 3, b"6"),
        ]
        for cut in range(len(lines) + 1):
            seen = _SeenLines()
            given = [each.text for each in lines[:cut] if seen.is_new(each)]
            seen.restart()
            given += [each.text for each in lines if seen.is_new(each)]
            self.assertEqual(sorted(given), [b"1", b"2", b"3", b"4", b"5", b"6"])


if __name__ == "__main__":
    unittest.main()
