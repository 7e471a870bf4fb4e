"""What people do with kubectl."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from api import ConformanceTest
from pods import PodTest


def kubectl_minor():
    """Of kubectl 1.N, N; 0 if there is none."""
    if not shutil.which("kubectl"):
        return 0
    version = subprocess.run(["kubectl", "version", "--client", "-o", "json"],
                             capture_output=True,
                             text=True,
                             check=True)
    return int(json.loads(version.stdout)["clientVersion"]["minor"].rstrip("+"))


# Older ones look for unknown fields by themselves, in a document that the double has not.
NEEDED = unittest.skipUnless(kubectl_minor() >= 27, "needs kubectl 1.27 or later")


class Kubectl:
    """Calls it, in a test's namespace."""

    def setUp(self):
        super().setUp()
        # kubectl writes what it has learnt of the server there.
        self.home = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.home)

    def run_kubectl(self, *arguments, stdin=None):
        command = [
            "kubectl", "--server", os.environ["ADAPTDL_CONFORMANCE_URL"], "--namespace", self.namespace,
            *arguments
        ]
        environment = {**os.environ, "KUBECONFIG": os.devnull, "HOME": self.home}
        return subprocess.run(command,
                              input=stdin,
                              text=True,
                              capture_output=True,
                              timeout=120,
                              env=environment,
                              check=False)

    def kubectl(self, *arguments, stdin=None):
        done = self.run_kubectl(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


@NEEDED
class KubectlTest(Kubectl, ConformanceTest):

    def apply(self, *arguments, **spec):
        return self.kubectl("apply", "-f", "-", *arguments, stdin=json.dumps(self.widget(**spec)))

    def test_apply_makes_changes_and_leaves_alone(self):
        self.assertIn("created", self.apply(row=[1]))
        self.assertIn("unchanged", self.apply(row=[1]))
        self.assertIn("configured", self.apply(size=3))
        spec = self.get()["spec"]
        self.assertEqual((spec["size"], "row" in spec), (3, False))

    def test_server_side_apply(self):
        self.assertIn("serverside-applied", self.apply("--server-side", "--field-manager=a", size=2))
        done = self.run_kubectl("apply",
                                "--server-side",
                                "--field-manager=b",
                                "-f",
                                "-",
                                stdin=json.dumps(self.widget(size=3)))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('conflict with "a"', done.stderr)

    def test_apply_finds_unknown_fields(self):
        done = self.run_kubectl("apply", "-f", "-", stdin=json.dumps(self.widget(nonsense=1)))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nonsense", done.stderr)

    def test_get_shows_the_columns_of_the_crd(self):
        self.make(self.widget(size=42))
        for name in ("widgets", "wdg", f"widget.{self.group}"):
            lines = self.kubectl("get", name, self.name).splitlines()
            self.assertEqual(lines[0].split(), ["NAME", "SIZE"] + lines[0].split()[2:])
            self.assertEqual(lines[1].split()[:2], [self.name, "42"])
        self.assertEqual(self.kubectl("get", "wdg", self.name, "-o", "jsonpath={.spec.size}"), "42")
        self.assertIn(self.name, self.kubectl("get", "wdg", "-o", "name"))

    def test_scale_and_label_and_delete(self):
        self.make()
        self.assertIn("scaled", self.kubectl("scale", "--replicas=5", f"widget.{self.group}/{self.name}"))
        self.kubectl("label", "wdg", self.name, "a=b")
        self.kubectl("patch", "wdg", self.name, "--type=merge", "-p", '{"spec":{"size":6}}')
        obj = self.get()
        self.assertEqual((obj["spec"]["replicas"], obj["spec"]["size"], obj["metadata"]["labels"]), (5, 6, {
            "a": "b"
        }))
        self.assertIn("deleted", self.kubectl("delete", "wdg", self.name))
        self.assertEqual(self.api.call("GET", self.widget_path)[0], 404)

    def test_wait_follows_an_object(self):
        self.make()
        self.patch({"status": {"phase": "Done"}}, path=self.widget_path + "/status")
        self.kubectl("wait", "--for=jsonpath={.status.phase}=Done", f"wdg/{self.name}", "--timeout=30s")
        self.kubectl("delete", "wdg", self.name, "--wait=false")
        self.kubectl("wait", "--for=delete", f"wdg/{self.name}", "--timeout=30s")


@NEEDED
class KubectlPodTest(Kubectl, PodTest):

    def test_logs_and_waiting_and_deleting(self):
        self.start(self.container("echo one; echo two; exit 1"))
        self.kubectl("wait", "--for=jsonpath={.status.phase}=Failed", "pod/" + self.name, "--timeout=60s")
        self.assertEqual(self.kubectl("logs", self.name), "one\ntwo\n")
        self.assertEqual(self.kubectl("logs", "-f", "--tail=1", self.name, "-c", "a"), "two\n")
        self.assertIn("deleted", self.kubectl("delete", "pod", self.name))
        self.assertTrue(self.is_gone())


if __name__ == "__main__":
    unittest.main()
