"""Jobs that call the API (docs/security.md), on a cluster of the real programs with its TLS and tokens, and on a plain one.

api_access_test.py BUILD_FOLDER
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(BUILD / "python"))
from adaptdl.client import Client, NotAllowedError  # noqa: E402

PATIENCE = 120
# A job's program: submits, lists, tries what is not its own, and tells what it has found in its environment.
PROGRAM = """
import json, os, sys
from adaptdl.client import Client, NotAllowedError

def refused(call):
    try:
        call()
    except NotAllowedError:
        return True
    return False

with Client(namespace="vision") as client:
    submitted = not refused(lambda: client.submit(["true"], name="child", max_replicas=1, cpus=0.1, api_access=True))
    elsewhere = refused(lambda: client.list(namespace="default")) and refused(lambda: client.list(namespace="*"))
    nodes = len(client.nodes()) if submitted else 0
with open(os.environ["ADAPTDL_SHARE_PATH"] + "/said.json", "w") as file:
    json.dump({"submitted": submitted, "elsewhere": elsewhere, "nodes": nodes, "token": os.environ.get("ADAPTDL_TOKEN", ""),
               "group_token": os.environ["ADAPTDL_GROUP_TOKEN"]}, file)
"""


class ApiAccessTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="adaptdl-access-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for name in [name for name in os.environ if name.startswith("ADAPTDL_")]:
            del os.environ[name]
        os.environ["ADAPTDL_HOME"] = self.folder + "/state"

    def up(self, *flags):
        self.adaptdl("cluster", "up", "--workers", "1", "--port", "0", *flags)
        self.addCleanup(self.adaptdl, "cluster", "down", "--force", "--purge")
        client = Client(namespace="vision")
        self.addCleanup(client.close)
        return client

    def adaptdl(self, *words):
        done = subprocess.run([BUILD / "bin/adaptdl", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=PATIENCE)
        if done.returncode:
            raise RuntimeError(f"{words} failed: {done.stdout}")
        return done.stdout

    def run_job(self, client, name, **options):
        """What its program has said."""
        client.submit(["/usr/bin/python3", "-c", PROGRAM], name=name, max_replicas=1, max_restarts=0,
                      env={"PYTHONPATH": str(BUILD / "python"), **options.pop("env", {})}, **options)
        job = client.wait(name, timeout=PATIENCE)
        self.assertTrue(job.succeeded, "\n".join(line.text for line in client.logs(name)))
        said = pathlib.Path(self.folder, f"{name}.json")
        self.adaptdl("cp", f"{name}:share/said.json", str(said), "--namespace", "vision")
        return json.loads(said.read_text())

    def test_a_job_is_a_user_of_its_own_namespace_while_it_runs(self):
        client = self.up()
        said = self.run_job(client, "caller", api_access=True)
        self.assertTrue(said["submitted"])
        self.assertTrue(said["elsewhere"])
        self.assertEqual(said["nodes"], 1)
        self.assertTrue(client.wait("child", timeout=PATIENCE).succeeded)
        self.assertIn("as a user of its namespace", self.adaptdl("describe", "caller", "--namespace", "vision"))
        with Client(token=said["token"], namespace="vision") as ended:
            self.assertRaises(NotAllowedError, ended.list)
        log = next(pathlib.Path(self.folder, "state").rglob("audit.jsonl")).read_text()
        audit = [json.loads(line) for line in log.splitlines()]
        self.assertIn('job "vision/caller"', [record["caller"] for record in audit
                                              if record["method"].endswith("SubmitJob")])
        self.assertNotIn(said["token"], json.dumps(audit))

    def test_a_job_that_has_not_asked_may_not(self):
        client = self.up()
        self.run_job(client, "asked", api_access=True)
        client.delete("asked")
        ca = json.loads(pathlib.Path(self.folder, "state/cluster.json").read_text())["caFile"]
        # It knows where the cluster is, and has its group's token.
        said = self.run_job(client, "silent", env={"ADAPTDL_CA_FILE": ca, "ADAPTDL_TOKEN": "adaptdl_none"})
        self.assertFalse(said["submitted"])
        with Client(token=said["group_token"], namespace="vision") as other:
            self.assertRaises(NotAllowedError, other.list)

    def test_on_a_cluster_without_tokens_it_finds_its_way(self):
        said = self.run_job(self.up("--insecure"), "caller", api_access=True)
        self.assertTrue(said["submitted"])


if __name__ == "__main__":
    unittest.main()
