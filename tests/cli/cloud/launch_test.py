#!/usr/bin/env python3
"""What docs/cloud.md shows is run as it stands there: a cluster comes from its file, a job trains on a machine that the head's autoscaler has
made, and nothing is left. The folder with the programs is the only argument."""

import os
import pathlib
import re
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/services/autoscaler/providers/aws"))
import boto3  # noqa: E402
from machines.cloud import Cloud  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
PATIENCE_SECONDS = 120
IMAGE = "ami-12c6146b"  # one that moto has


def blocks(language):
    """Of the page's part about launching."""
    page = (ROOT / "docs/cloud.md").read_text()
    part = page[page.index("## Launch a cluster"):page.index("## How a machine becomes a node")]
    return re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class CloudTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ad-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)
        for name in ["home", "storage", "digits"]:
            (self.folder / name).mkdir()
        for path in [PROGRAMS / "adaptdl-mnist", PROGRAMS.parent / "lib/libadaptdl_control.so"]:
            shutil.copy(path, self.folder / "digits")
        self.cloud = Cloud(self.folder, PROGRAMS)
        self.addCleanup(self.cloud.stop)
        self.environment = {"HOME": str(self.folder / "home"), "PATH": f"{PROGRAMS}:/usr/bin:/bin", "LANG": "C.UTF-8",
                            "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        (self.folder / "cluster.yaml").write_text(self.cluster_file())
        self.profile = self.folder / "home/.config/adaptdl/clusters/demo"

    def cluster_file(self):
        """The page's, with things that there are in the account of the test."""
        ec2 = self.cloud.ec2()
        subnet = ec2.describe_subnets()["Subnets"][0]
        port = free_port()
        group = ec2.create_security_group(GroupName="cluster", Description="of the test", VpcId=subnet["VpcId"])["GroupId"]
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[
            {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "IpRanges": [{"CidrIp": "127.0.0.0/8"}]}])
        boto3.client("iam", region_name="us-east-1", endpoint_url=self.cloud.upstream, aws_access_key_id="test",
                     aws_secret_access_key="test").create_instance_profile(InstanceProfileName="adaptdl-head")
        text = blocks("yaml")[0]
        for shown, real in [("ami-0123456789abcdef0", IMAGE), ("subnet-0123456789abcdef0", subnet["SubnetId"]),
                            ("sg-0123456789abcdef0", group), ("/srv/adaptdl", str(self.folder / "storage")),
                            ("region: us-east-1\n", f"region: us-east-1\nendpoint: {self.cloud.url}\n"),
                            ("head:\n", f"head:\n  port: {port}\n"), ("  target:", "  cooldown: 0s\n  target:")]:
            self.assertIn(shown, text)
            text = text.replace(shown, real, 1)
        return text

    def run_line(self, line, code=0):
        words = shlex.split(line)
        if words[1:3] in (["cloud", "up"], ["cloud", "down"]):
            words += ["--look-period", "200ms"]
        try:
            done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True,
                                  timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired as late:
            self.fail(f"{line}: has not ended: {late.stdout} {late.stderr}{self.tell()}")
        self.assertEqual(done.returncode, code, f"{line}: {done.stdout}{done.stderr}{self.tell()}")
        return done.stdout + done.stderr

    def tell(self):
        machines = [*self.cloud.running.values(), *self.cloud.past.values()]
        return "".join(f"\n--- console of {machine.instance}\n{machine.console()[-6000:]}" for machine in machines)

    def test_the_page_from_launch_to_end(self):
        outputs = {}
        for line in blocks("sh")[0].strip().splitlines():
            if line.startswith("adaptdl cloud down"):
                self.look_at_the_cluster()
            outputs[line] = self.run_line(line)
            if "--dry-run" in line:
                self.assertEqual(self.cloud.living(), [])
                self.assertFalse(self.profile.exists())
        out = list(outputs.values())
        self.assertIn("RunInstances ", out[0])
        self.assertIn("InstanceType=m7i.large", out[0])
        self.assertIn("Cluster demo is up", out[1])
        self.assertIn("(head)", out[2])
        self.assertIn("accuracy", out[4])
        self.assertEqual(self.cloud.living(), [])
        self.assertFalse(self.profile.exists())
        self.assertEqual(self.cloud.ec2().describe_launch_templates()["LaunchTemplates"], [])

    def test_a_head_that_runs_the_services_as_containers(self):
        path = self.folder / "cluster.yaml"
        path.write_text(path.read_text().replace("head:\n", "head:\n  serviceImage: registry.example/adaptdl:1\n"))
        self.assertIn("Cluster demo is up", self.run_line("adaptdl cloud up cluster.yaml"))
        (head,) = self.cloud.running.values()
        self.assertEqual(set((head.root / "run/images").read_text().split()), {"registry.example/adaptdl:1"})
        self.assertIn("admin", self.run_line("adaptdl --cluster demo whoami"))
        self.run_line("adaptdl cloud down cluster.yaml --yes")
        self.assertEqual(self.cloud.living(), [])
        # The profile is gone.
        self.assertIn("adaptdl cloud up", self.run_line("adaptdl --cluster demo ls", code=1))

    def look_at_the_cluster(self):
        """Once a job has run."""
        self.assertEqual(stat.S_IMODE(os.stat(self.profile).st_mode), 0o700)
        self.assertEqual(stat.S_IMODE(os.stat(self.profile / "token").st_mode), 0o600)
        # Again: there is nothing to do, and nothing is made.
        self.assertIn("the head is there", self.run_line("adaptdl cloud up cluster.yaml"))
        machines = [*self.cloud.running.values(), *self.cloud.past.values()]
        self.assertEqual(sum("adaptdl-head" in machine.user_data for machine in machines), 1)
        submit = "adaptdl --cluster demo cloud submit -d digits -m 2 --dry-run -f "
        call = self.run_line(submit + "adaptdl-mnist --checkpoint-timeout 90s")
        for said in ['"terminationGracePeriod": "90s"', '"maxReplicas": 2', '"gpus": 1', '"./adaptdl-mnist"']:
            self.assertIn(said, call)
        self.assertIn("there is no such file", self.run_line(submit + "nothing", code=1))
        secret = (self.profile / "token").read_text().strip()
        for machine in machines:
            self.assertNotIn(secret, machine.user_data)
            self.assertNotIn("PRIVATE KEY", machine.user_data)
            self.assertNotIn(secret, machine.console())
        self.assertIn("--yes", self.run_line("adaptdl cloud down demo", code=2))


if __name__ == "__main__":
    unittest.main(verbosity=2)
