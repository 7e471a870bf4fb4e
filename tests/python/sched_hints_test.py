"""adaptdl.sched_hints: a job that tells a real supervisor of itself, and what can go wrong.

sched_hints_test.py BUILD_FOLDER
"""

import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(BUILD / "python"))

from adaptdl import sched_hints  # noqa: E402
from adaptdl.client import Client  # noqa: E402
from adaptdl.goodput import PerfParams  # noqa: E402

PATIENCE = 120
HINTS = {
    **sched_hints.SCHED_HINTS,
    "initBatchSize": 128,
    "maxBatchSize": 1280,
    "localBszBounds": [64, 256],
    "maxProfiledReplicas": 2,
    "gradientAccumulation": True,
    "gradParams": {"norm": 0.00136, "var": 0.000502},
    "perfParams": PerfParams(0.121, 0.00568, 0.0236, 0.00634, 0.0118, 0.00317, 1.14)._asdict(),
}


class Server:
    """Answers each PUT with `status`, and keeps what it was told."""

    def __init__(self, status):
        told = self.told = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self):
                told.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(b"the reason")

            def log_message(self, *_):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/secret"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class PostTest(unittest.TestCase):
    def post(self, url, hints):
        with mock.patch.dict(os.environ, {"ADAPTDL_SUPERVISOR_URL": url, "http_proxy": "http://127.0.0.1:1"}):
            sched_hints.post_sched_hints(hints, "default/job")

    def test_hints_are_put_to_the_jobs_address(self):
        with Server(200) as server, self.assertNoLogs("adaptdl"):
            self.post(server.url, HINTS)
            self.assertEqual(server.told, [("/secret/hints/default/job", HINTS)])

    def test_what_fails_is_a_warning_without_the_secret(self):
        with Server(400) as server:
            for url, hints, text in [
                (server.url, HINTS, "400 the reason"),
                (server.url, {"batchSize": 1}, "batchSize is none of initBatchSize"),
                (server.url, {"initBatchSize": float("nan")}, "not sent"),
                ("http://127.0.0.1:1/secret", HINTS, "not sent"),
                ("no address/secret", HINTS, "not sent"),
            ]:
                with self.subTest(text), self.assertLogs("adaptdl", "WARNING") as logs:
                    self.post(url, hints)
                self.assertIn(text, logs.output[0])
                self.assertNotIn("secret", logs.output[0])
            self.assertEqual(len(server.told), 1)

    def test_nothing_happens_outside_of_a_cluster(self):
        with mock.patch.dict(os.environ):
            os.environ.pop("ADAPTDL_SUPERVISOR_URL", None)
            with self.assertNoLogs("adaptdl"):
                sched_hints.post_sched_hints(HINTS, "default/job")


class ClusterTest(unittest.TestCase):
    def adaptdl(self, *words):
        done = subprocess.run(
            [BUILD / "bin/adaptdl", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        self.assertEqual(done.returncode, 0, done.stdout)

    def setUp(self):
        folder = tempfile.mkdtemp(prefix="adaptdl-hints-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        os.environ["ADAPTDL_HOME"] = folder + "/state"
        for variable in (
            "SUPERVISOR_ADDRESS",
            "CA_FILE",
            "TOKEN",
            "TOKEN_FILE",
            "TLS_SERVER_NAME",
            "INSECURE",
        ):
            os.environ.pop("ADAPTDL_" + variable, None)
        os.environ["ADAPTDL_SERVER_ADAPTDL_HTTP"] = "127.0.0.1:0"
        self.addCleanup(self.adaptdl, "cluster", "down", "--force", "--purge")
        self.adaptdl("cluster", "up", "--workers", "1", "--port", "0")

    def test_the_supervisor_knows_what_a_job_has_told(self):
        code = (
            "import json, os, sys; from adaptdl.sched_hints import post_sched_hints; "
            "post_sched_hints(json.loads(sys.argv[1]), os.environ['ADAPTDL_JOB_ID'])"
        )
        with Client() as client:
            client.submit(
                ["sh", "-c", '"$@" && exec sleep 1000', "sh", sys.executable, "-c", code, json.dumps(HINTS)],
                name="tells",
                max_replicas=1,
                max_restarts=0,
                env={"PYTHONPATH": str(BUILD / "python")},
            )
            for job in client.follow("tells", timeout=PATIENCE):
                if job.raw.status.HasField("hints"):
                    break
            else:
                self.fail([line.text for line in client.logs("tells")])
            client.cancel("tells")
            hints = job.raw.status.hints
        self.assertEqual(
            (hints.init_batch_size, hints.max_batch_size, hints.max_local_batch_size), (128, 1280, 256)
        )
        self.assertAlmostEqual(hints.perf_params.gamma, 1.14)
        self.assertAlmostEqual(hints.grad_params.norm, 0.00136)


if __name__ == "__main__":
    unittest.main()
