#!/usr/bin/env python3
"""The real autoscaler, supervisor and allocator with machines of an emulated Amazon: scales up and down, goes on where it was
killed, and gets over what clouds do. The folder with the programs is the only argument."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from emulator import Emulator  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
GROUP = "workers"
FLEET_POOLS = """
cooldown: 0s
target: {{mode: cost, goodputPerDollar: 0.1}}
pools:
- name: machines
  provider: aws
  instanceTypes: [g5.xlarge]
  cpus: 1
  memory: 1Gi
  pricePerHour: 1
  maxNodes: 3
  aws: {{region: us-east-1, image: ami-12345678, subnets: [{subnet}], endpoint: "{endpoint}", launch: binary, workerBinary: /usr/bin/adaptdl-worker}}
"""

GROUP_POOLS = """
cooldown: 0s
target: {{mode: cost, goodputPerDollar: 0.1}}
pools:
- {{name: machines, provider: aws, instanceType: g5.xlarge, cpus: 1, memory: 1Gi, pricePerHour: 1, maxNodes: 3,
   aws: {{region: us-east-1, endpoint: "{endpoint}", autoScalingGroup: workers}}}}
"""


class AwsTest(unittest.TestCase):
    """A cluster before an emulated Amazon, and what tests do with it."""

    POOLS = FLEET_POOLS

    def setUp(self):
        self.emulator = Emulator()
        self.addCleanup(self.emulator.stop)
        folder = tempfile.TemporaryDirectory(prefix="adaptdl-aws-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "pools.yaml").write_text(self.POOLS.format(
            endpoint=self.emulator.url, subnet=self.emulator.ec2().describe_subnets()["Subnets"][0]["SubnetId"]))
        self.supervisor = self.start("supervisor", "--state-dir", str(self.folder / "supervisor"))
        self.allocator = self.start("allocator", "--supervisor", self.supervisor, "--interval", "1s")
        self.autoscaler = None

    def start(self, name, *flags):
        """Starts a service; returns its address."""
        address = self.folder / f"{name}.address"
        address.unlink(missing_ok=True)
        before = getattr(self, f"{name}_process", None)
        if before is not None:
            before.kill()
            before.wait()
        log = open(self.folder / f"{name}.log", "a")
        self.addCleanup(log.close)
        environment = {**os.environ, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        process = subprocess.Popen(
            [PROGRAMS / f"adaptdl-{name}", "--insecure", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
             "--address-file", address, *flags], stdout=log, stderr=log, env=environment)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        setattr(self, f"{name}_process", process)
        self.eventually(address.exists, f"{name} started")
        return address.read_text().strip()

    def start_autoscaler(self):
        self.start("autoscaler", "--supervisor", self.supervisor, "--allocator", self.allocator, "--pools",
                   str(self.folder / "pools.yaml"), "--state-dir", str(self.folder / "autoscaler"), "--poll-period", "200ms")

    def kill_autoscaler(self):
        self.autoscaler_process.send_signal(signal.SIGKILL)
        self.autoscaler_process.wait()

    def eventually(self, holds, what, seconds=60):
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                log = self.folder / "autoscaler.log"
                self.fail(f"not within {seconds} s: {what}\n" + (log.read_text()[-4000:] if log.exists() else ""))
            time.sleep(0.05)

    def adaptdl(self, *arguments):
        return subprocess.run([PROGRAMS / "adaptdl", arguments[0], "--insecure", "--supervisor", self.supervisor, *arguments[1:]],
                              check=True, capture_output=True, text=True).stdout

    def submit(self, name):
        self.adaptdl("submit", "--name", name, "--", "sleep", "1000")

    def cancel(self, name):
        self.adaptdl("cancel", name)

    def awaits_machines(self, count):
        self.eventually(lambda: len(self.emulator.living()) == count, f"{count} machines")


class FleetTest(AwsTest):
    def test_machines_follow_the_jobs_and_the_bill_is_known(self):
        self.start_autoscaler()
        self.submit("a")
        self.submit("b")
        self.awaits_machines(2)
        self.eventually(lambda: self.emulator.living()[0] in self.adaptdl("pools", "-o", "json"), "the pool is told")
        self.assertIn("machines", self.adaptdl("pools"))
        self.cancel("a")
        self.awaits_machines(1)
        self.cancel("b")
        self.awaits_machines(0)

    def test_want_of_capacity_is_told_and_got_over(self):
        self.emulator.faults["CreateFleet"] = ["capacity"]
        self.start_autoscaler()
        self.submit("a")
        self.eventually(lambda: "InsufficientCapacity" in self.adaptdl("pools", "-o", "json"), "the condition")
        self.assertEqual(self.emulator.living(), [])
        self.awaits_machines(1)

    def test_throttling_and_expired_credentials_are_got_over(self):
        self.emulator.faults["DescribeInstances"] = ["throttle", "expired"]
        self.emulator.faults["CreateFleet"] = ["throttle", "expired"]
        self.start_autoscaler()
        self.submit("a")
        self.awaits_machines(1)

    def test_a_machine_that_is_taken_back_is_replaced(self):
        self.start_autoscaler()
        self.submit("a")
        self.awaits_machines(1)
        taken = self.emulator.living()
        self.emulator.ec2().terminate_instances(InstanceIds=taken)
        self.eventually(lambda: len(self.emulator.living()) == 1 and self.emulator.living() != taken, "another machine")

    def test_killed_after_any_call_it_makes_nothing_twice_and_leaves_nothing_behind(self):
        # The answer never comes, and the program dies: after each call that changes something, once.
        for round_, action in enumerate(["CreateLaunchTemplate", "CreateFleet", "TerminateInstances"]):
            with self.subTest(action):
                job = f"job-{round_}"
                self.emulator.faults[action] = ["lose"] * 20
                self.start_autoscaler()
                self.submit(job)
                if action == "TerminateInstances":
                    self.awaits_machines(1)
                    self.cancel(job)
                before = len(self.emulator.actions)
                self.eventually(lambda: action in self.emulator.actions[before:] or action in self.emulator.actions, action)
                self.kill_autoscaler()
                self.emulator.faults[action] = []
                self.start_autoscaler()
                if action != "TerminateInstances":
                    self.awaits_machines(1)
                    # It has looked again, and is content.
                    looked = self.emulator.actions.count("DescribeInstances")
                    self.eventually(lambda: self.emulator.actions.count("DescribeInstances") > looked + 5, "more looks")
                    self.assertEqual(len(self.emulator.living()), 1)
                    self.cancel(job)
                self.awaits_machines(0)
                self.kill_autoscaler()


class GroupTest(AwsTest):
    """The same with an Auto Scaling group that is there already."""

    POOLS = GROUP_POOLS

    def setUp(self):
        super().setUp()
        subnet = self.emulator.ec2().describe_subnets()["Subnets"][0]["SubnetId"]
        image = self.emulator.ec2().describe_images()["Images"][0]["ImageId"]
        self.emulator.ec2().create_launch_template(
            LaunchTemplateName=GROUP, LaunchTemplateData={"ImageId": image, "InstanceType": "g5.xlarge"})
        self.scaling = self.emulator.client("autoscaling")
        self.scaling.create_auto_scaling_group(
            AutoScalingGroupName=GROUP, LaunchTemplate={"LaunchTemplateName": GROUP}, MinSize=0, MaxSize=3, DesiredCapacity=0,
            VPCZoneIdentifier=subnet, NewInstancesProtectedFromScaleIn=True)

    def desired(self):
        return self.scaling.describe_auto_scaling_groups()["AutoScalingGroups"][0]["DesiredCapacity"]

    def awaits_size(self, count):
        self.awaits_machines(count)
        self.eventually(lambda: self.desired() == count, f"a desired capacity of {count}")

    def test_the_groups_size_follows_the_jobs_also_over_bad_days(self):
        self.emulator.faults["DescribeAutoScalingGroups"] = ["throttle", "expired"]
        self.emulator.faults["SetDesiredCapacity"] = ["throttle", "expired"]
        self.start_autoscaler()
        self.submit("a")
        self.submit("b")
        self.awaits_machines(2)
        self.eventually(lambda: self.emulator.living()[0] in self.adaptdl("pools", "-o", "json"), "the pool is told")
        self.cancel("a")
        self.awaits_size(1)
        self.cancel("b")
        self.awaits_size(0)

    def test_killed_after_any_call_it_makes_nothing_twice_and_leaves_nothing_behind(self):
        self.emulator.faults["SetDesiredCapacity"] = ["lose"] * 20
        self.start_autoscaler()
        self.submit("a")
        self.eventually(lambda: "SetDesiredCapacity" in self.emulator.actions, "the call")
        self.kill_autoscaler()
        self.emulator.faults["SetDesiredCapacity"] = []
        self.start_autoscaler()
        self.awaits_size(1)
        looked = self.emulator.actions.count("DescribeAutoScalingGroups")
        self.eventually(lambda: self.emulator.actions.count("DescribeAutoScalingGroups") > looked + 5, "more looks")
        self.assertEqual(self.desired(), 1)
        self.emulator.faults["TerminateInstanceInAutoScalingGroup"] = ["lose"] * 20
        self.cancel("a")
        self.eventually(lambda: "TerminateInstanceInAutoScalingGroup" in self.emulator.actions, "the call")
        self.kill_autoscaler()
        self.emulator.faults["TerminateInstanceInAutoScalingGroup"] = []
        self.start_autoscaler()
        self.awaits_size(0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
