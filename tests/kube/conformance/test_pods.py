"""Pods that run: their ends, what they find, and how they are stopped."""

import unittest

from pods import PodTest

FINALIZER = "conformance.adaptdl/pod"
# As pid 1, a shell heeds no signal that it does not trap.
FOREVER = "trap 'exit 9' TERM; echo up; while :; do sleep 0.1; done"
DEAF = "trap '' TERM; echo up; while :; do sleep 0.1; done"


class RunTest(PodTest):

    def test_it_runs_to_its_end(self):
        status = self.run_to_the_end(self.container("true"))
        self.assertEqual(status["phase"], "Succeeded")
        self.assertEqual(self.state()[1]["exitCode"], 0)
        self.assertEqual(self.state()[1]["reason"], "Completed")
        ready = self.condition("Ready")
        self.assertEqual((ready["status"], ready["reason"]), ("False", "PodCompleted"))

    def test_exit_codes_and_signals(self):
        for script, code in (("exit 3", 3), ("sleep 99 & kill -9 $!; wait $!", 137), ("exit 0", 0)):
            self.setUp()
            status = self.run_to_the_end(self.container(script))
            self.assertEqual(status["phase"], "Failed" if code else "Succeeded")
            self.assertEqual(self.state()[1]["exitCode"], code)

    def test_one_container_that_fails_fails_the_pod(self):
        status = self.run_to_the_end(self.container("exit 0"), self.container("exit 5", "b"))
        self.assertEqual((status["phase"], self.state("b")[1]["exitCode"]), ("Failed", 5))

    def test_it_is_ready_while_it_runs(self):
        self.start(self.container(FOREVER))
        status = self.wait_for_phase("Running")
        self.assertTrue(status["podIP"] and status["hostIP"] and status["startTime"])
        self.eventually(lambda: self.condition("Ready").get("status") == "True")
        for kind in ("PodScheduled", "Initialized", "ContainersReady"):
            self.assertEqual(self.condition(kind)["status"], "True")
        self.assertEqual(self.state()[0], "running")

    def test_a_program_that_is_not_there(self):
        for program in ("nonsense-of-no-image", "/nowhere/nothing", "/etc/passwd"):
            self.setUp()
            status = self.run_to_the_end({**self.container(""), "command": [program]})
            self.assertEqual((status["phase"], self.state()[1]["exitCode"]), ("Failed", 128))
            self.assertEqual(self.state()[1]["reason"], "StartError")
            self.assertIn(program, self.state()[1]["message"])

    def test_a_program_on_a_volume(self):
        mounts = [{"name": "v", "mountPath": "/v"}]
        writer = self.container("printf '#!/bin/sh\\nexit 6\\n' > /v/p; chmod +x /v/p",
                                "w",
                                volumeMounts=mounts)
        main = {**self.container("", volumeMounts=mounts), "command": ["/v/p"]}
        self.run_to_the_end(main, initContainers=[writer], volumes=[{"name": "v", "emptyDir": {}}])
        self.assertEqual(self.state()[1]["exitCode"], 6)

    def test_last_words(self):
        self.run_to_the_end(self.container("echo -n why > /dev/termination-log; exit 1"))
        self.assertEqual(self.state()[1]["message"], "why")

    def test_init_containers_come_first_and_in_order(self):
        mounts = [{"name": "v", "mountPath": "/v"}]
        inits = [self.container(f"echo {name} >> /v/said", name, volumeMounts=mounts) for name in ("x", "y")]
        said = self.output_of("cat /v/said",
                              volumeMounts=mounts,
                              spec={
                                  "initContainers": inits,
                                  "volumes": [{
                                      "name": "v",
                                      "emptyDir": {}
                                  }]
                              })
        self.assertEqual(said.split(), ["x", "y"])

    def test_an_init_container_that_fails_ends_it(self):
        status = self.run_to_the_end(self.container("true"), initContainers=[self.container("exit 4", "x")])
        self.assertEqual((status["phase"], self.state("x")[1]["exitCode"]), ("Failed", 4))
        self.assertEqual(self.condition("Initialized")["status"], "False")

    def test_a_sidecar_ends_after_the_others(self):
        sidecar = self.container(FOREVER, "s", restartPolicy="Always")
        status = self.run_to_the_end(self.container("sleep 0.2"), initContainers=[sidecar])
        self.assertEqual(status["phase"], "Succeeded")
        self.assertEqual(self.state("s")[0], "terminated")

    def test_an_image_that_is_not_there(self):
        container = {**self.container("true"), "image": "nowhere.invalid/nothing:1"}
        self.start(container)
        self.eventually(lambda: self.state()[1].get("reason") in ("ErrImagePull", "ImagePullBackOff"))
        self.assertEqual(self.phase(), "Pending")
        self.assert_log_refused("waiting to start")

    def assert_log_refused(self, why, **query):
        code, text = self.ask_for_log(**query)
        self.assertEqual(code, 400)
        self.assertIn(why, text)

    def test_logs(self):
        self.start(self.container("echo one; echo two >&2; echo -n three; sleep 0.2; echo; " + FOREVER))
        self.eventually(lambda: "up" in self.ask_for_log()[1])
        self.assertEqual(self.log().split(), ["one", "two", "three", "up"])
        self.assertEqual(self.log(tailLines=2).split(), ["three", "up"])
        first = self.log(timestamps="true").split("\n")[0]
        self.assertRegex(first, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z one$")
        self.assertEqual(self.log(sinceTime="2999-01-01T00:00:00Z"), "")
        self.assert_log_refused("previous terminated container", previous="true")
        self.assert_log_refused("is not valid", container="nobody")

    def test_logs_are_followed_to_the_end(self):
        self.start(self.container("echo one; sleep 0.3; echo two"))
        self.eventually(lambda: self.ask_for_log()[0] == 200)
        self.assertEqual(self.log(follow="true").split(), ["one", "two"])


class StopTest(PodTest):

    def start_forever(self, script=FOREVER, **spec):
        self.start(self.container(script), **spec)
        self.eventually(lambda: "up" in self.ask_for_log()[1])

    def delete(self, **options):
        self.assertEqual(self.api.call("DELETE", self.pod_path, options)[0], 200)

    def test_a_deleted_pod_is_asked_to_end(self):
        self.start_forever(metadata={"finalizers": [FINALIZER]})
        self.delete()
        self.assertEqual(self.wait_for_phase("Failed", "Succeeded")["phase"], "Failed")
        self.assertEqual(self.state()[1]["exitCode"], 9)
        self.eventually(lambda: self.get(self.pod_path)["metadata"]["deletionGracePeriodSeconds"] == 0)
        self.patch({"metadata": {"finalizers": None}}, path=self.pod_path)
        self.eventually(self.is_gone)

    def test_a_pod_that_does_not_heed_is_killed(self):
        self.start_forever(DEAF, metadata={"finalizers": [FINALIZER]})
        self.delete(gracePeriodSeconds=1)
        self.wait_for_phase("Failed")
        self.assertEqual(self.state()[1]["exitCode"], 137)
        self.patch({"metadata": {"finalizers": None}}, path=self.pod_path)
        self.eventually(self.is_gone)

    def test_its_grace_may_become_shorter(self):
        self.start_forever(DEAF, terminationGracePeriodSeconds=3600)
        self.delete()
        self.assertEqual(self.phase(), "Running")
        self.delete(gracePeriodSeconds=1)
        self.eventually(self.is_gone)

    def test_a_pod_that_waits_is_deleted(self):
        self.start({**self.container("true"), "image": "nowhere.invalid/nothing:1"})
        self.eventually(lambda: self.state()[0] == "waiting")
        self.delete()
        self.eventually(self.is_gone)

    def test_an_eviction_says_why(self):
        self.start_forever(metadata={"finalizers": [FINALIZER]})
        self.make(
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {
                    "name": self.name,
                    "namespace": self.namespace
                }
            },
            path=self.pod_path + "/eviction")
        self.wait_for_phase("Failed")
        target = self.condition("DisruptionTarget")
        self.assertEqual((target["status"], target["reason"]), ("True", "EvictionByEvictionAPI"))
        self.patch({"metadata": {"finalizers": None}}, path=self.pod_path)
        self.eventually(self.is_gone)


if __name__ == "__main__":
    unittest.main()
