#!/usr/bin/env python3
"""Machines that an emulated Amazon makes for the real autoscaler join by their own user data, and train. The folder with the programs
is the only argument."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from machines.cloud import Cloud  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
PATIENCE_SECONDS = 120
POOLS = """
cooldown: 0s
target: {{mode: cost, goodputPerDollar: 0.1}}
pools:
- name: machines
  provider: aws
  instanceTypes: [g5.xlarge]
  cpus: 1
  memory: 1Gi
  pricePerHour: 1
  maxNodes: 1
  spot: true
  labels: {{tier: cheap}}
  mounts: [{{source: "fs-1.efs.us-east-1.amazonaws.com:/", target: "{storage}", options: "nfsvers=4.1,hard"}}]
  aws: {{region: us-east-1, image: ami-12345678, subnets: [{subnet}], endpoint: "{endpoint}", {launch}}}
"""


class LaunchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ad-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)
        (self.folder / "storage").mkdir()
        self.cloud = Cloud(self.folder, PROGRAMS)
        self.addCleanup(self.cloud.stop)
        self.security = self.folder / "security"
        self.call("admin", "certificates", "--out", self.security, "--node-authority")
        token = self.call("admin", "token", "create", "--file", self.folder / "tokens.json", "--name", "root", "--role", "admin")
        (self.folder / "token").write_text(token)
        self.supervisor = self.start(
            "supervisor", "--state-dir", self.folder / "supervisor", "--token-file", self.folder / "tokens.json",
            "--node-authority-cert", self.security / "node-authority/cert.pem",
            "--node-authority-key", self.security / "node-authority/key.pem")
        self.allocator = self.start("allocator", "--supervisor", self.supervisor, "--interval", "1s")

    def start(self, name, *flags):
        """Starts a service; returns its address."""
        address = self.folder / f"{name}.address"
        log = open(self.folder / f"{name}.log", "a")
        self.addCleanup(log.close)
        files = self.security / name
        process = subprocess.Popen(
            [PROGRAMS / f"adaptdl-{name}", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--address-file", address,
             "--tls-ca", files / "ca.pem", "--tls-cert", files / "cert.pem", "--tls-key", files / "key.pem", *flags],
            stdout=log, stderr=log, env={**os.environ, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.eventually(address.exists, f"{name} started")
        return address.read_text().strip()

    def start_autoscaler(self, launch):
        (self.folder / "pools.yaml").write_text(POOLS.format(
            endpoint=self.cloud.url, storage=self.folder / "storage", launch=launch,
            subnet=self.cloud.ec2().describe_subnets()["Subnets"][0]["SubnetId"]))
        self.start("autoscaler", "--supervisor", self.supervisor, "--allocator", self.allocator, "--poll-period", "200ms",
                   "--pools", self.folder / "pools.yaml", "--state-dir", self.folder / "autoscaler")

    def call(self, *arguments):
        try:
            done = subprocess.run([PROGRAMS / "adaptdl", *arguments], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.fail(f"{arguments}: has not ended{self.tell()}")
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stdout}{done.stderr}{self.tell()}")
        return done.stdout

    def adaptdl(self, *arguments):
        ours = ["--supervisor", self.supervisor, "--ca", self.security / "ca.pem", "--token-file", self.folder / "token"]
        return self.call(*ours, *arguments)

    def tell(self):
        """What may say why."""
        machines = [*self.cloud.running.values(), *self.cloud.past.values()]
        return "".join(f"\n--- {path.name}\n{path.read_text()[-3000:]}" for path in self.folder.glob("*.log")) + "".join(
            f"\n--- console of {machine.instance}\n{machine.console()[-6000:]}" for machine in machines)

    def eventually(self, holds, what, seconds=PATIENCE_SECONDS):
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                self.fail(f"not within {seconds} s: {what}{self.tell()}")
            time.sleep(0.1)

    def machines_of_the_cloud(self, launch):
        self.start_autoscaler(launch)
        # Followed: the machine, and what was written there, may be gone as soon as the job has ended.
        written = self.adaptdl("submit", "--name", "digits", "--follow", "--", PROGRAMS / "adaptdl-mnist", "--samples=256",
                               "--epochs=1")
        self.assertIn("accuracy", written)
        (machine,) = [*self.cloud.running.values(), *self.cloud.past.values()]
        # Nobody who reads user data learns a secret, and replicas do not reach the metadata service.
        self.assertNotIn("PRIVATE KEY", machine.user_data)
        self.assertNotIn((self.folder / "token").read_text().strip(), machine.user_data)
        self.assertIn("-d 169.254.169.254 -m owner --uid-owner 200000-265535 -j REJECT", (machine.root / "run/iptables").read_text())
        self.assertIn("fs-1.efs.us-east-1.amazonaws.com:/", (machine.root / "run/mounts").read_text())
        self.eventually(lambda: self.cloud.living() == [] and not self.cloud.running, "the machine is gone")
        self.assertEqual(list(self.cloud.past), [machine.instance])
        return machine

    def test_a_machine_joins_by_its_user_data_and_trains(self):
        self.machines_of_the_cloud("launch: binary, workerBinary: /usr/bin/adaptdl-worker")

    def test_a_machine_runs_the_worker_as_a_container(self):
        machine = self.machines_of_the_cloud("workerImage: registry.example/adaptdl-worker:1")
        self.assertEqual((machine.root / "run/images").read_text(), "registry.example/adaptdl-worker:1\n")

    def test_a_spot_machine_that_is_taken_back_is_replaced_while_the_job_waits(self):
        self.start_autoscaler("launch: binary, workerBinary: /usr/bin/adaptdl-worker")
        self.adaptdl("submit", "--name", "long", "--", "sleep", "1000")
        self.eventually(lambda: "Running" in self.adaptdl("ls"), "the job runs")
        (taken,) = self.cloud.running
        self.cloud.take_back(taken)
        self.eventually(lambda: taken in self.cloud.past, "the machine is taken")
        self.eventually(lambda: self.cloud.running and "Running" in self.adaptdl("ls"), "the job runs elsewhere")
        self.assertIn("takes the spot instance back", self.adaptdl("events", "long") + self.cloud.past[taken].console())


if __name__ == "__main__":
    unittest.main(verbosity=2)
