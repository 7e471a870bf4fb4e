"""Ports of pods and programs in them, as kubectl reaches them."""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import unittest

from pods import PodTest
from test_kubectl import Kubectl, kubectl_minor

FOREVER = "trap 'exit 9' TERM; echo up; while :; do sleep 0.1; done"
# Answers each connection with what it says, backwards; on the pod's own address if there are others on its machine.
REVERSING = """
import os, socketserver
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.read()[::-1])
server = socketserver.ThreadingTCPServer((os.environ["IP"], 8080), Handler)
print("up", flush=True)
server.serve_forever()
"""


@unittest.skipUnless(kubectl_minor(), "needs kubectl")
class StreamsTest(Kubectl, PodTest):

    def run_forever(self, **container):
        self.start(self.container(FOREVER, **container))
        self.wait_for_phase("Running")

    def exec(self, *command, stdin=None):
        options = ["-i"] if stdin is not None else []
        return self.run_kubectl("exec", *options, self.name, "--", *command, stdin=stdin)

    def test_a_program_in_a_container(self):
        self.run_forever(env=[{"name": "WORD", "value": "two words"}])
        done = self.exec("sh", "-c", 'echo "$WORD"; hostname; echo oh >&2')
        self.assertEqual((done.returncode, done.stdout), (0, f"two words\n{self.name}\n"), done.stderr)
        self.assertIn("oh\n", done.stderr)

    def test_its_exit_code(self):
        self.run_forever()
        self.assertEqual(self.exec("sh", "-c", "exit 7").returncode, 7)

    def test_what_it_reads(self):
        self.run_forever()
        text = "".join(f"line {number}\n" for number in range(50000))
        done = self.exec("sort", "-n", stdin=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(text.splitlines()))

    def test_it_is_in_the_container(self):
        self.run_forever()
        self.assertEqual(self.exec("sh", "-c", "echo kept > /root/file").returncode, 0)
        self.assertEqual(self.exec("cat", "/root/file").stdout, "kept\n")
        self.assertFalse(os.path.exists("/root/file"))

    def test_copies(self):
        self.run_forever()
        self.exec("sh", "-c", "mkdir -p /data/in; echo one > /data/a; echo two > /data/in/b")
        with tempfile.TemporaryDirectory() as folder:
            self.kubectl("cp", f"{self.name}:/data", folder + "/copy")
            copies = {
                str(path.relative_to(folder)): path.read_text()
                for path in pathlib.Path(folder).rglob("*") if path.is_file()
            }
        self.assertEqual(copies, {"copy/a": "one\n", "copy/in/b": "two\n"})

    def test_of_a_pod_that_has_ended(self):
        self.run_to_the_end(self.container("true"))
        self.assertNotEqual(self.exec("true").returncode, 0)

    @contextlib.contextmanager
    def forwarded(self, port):
        """The local port of a port of the pod."""
        command = [
            "kubectl", "--server", os.environ["ADAPTDL_CONFORMANCE_URL"], "--namespace", self.namespace,
            "port-forward", "--address", "127.0.0.1", f"pod/{self.name}", f":{port}"
        ]
        with subprocess.Popen(command,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              text=True,
                              env={**os.environ, "KUBECONFIG": os.devnull, "HOME": self.home}) as process:
            try:
                line = process.stdout.readline()
                match = re.search(r"127\.0\.0\.1:(\d+) -> ", line)
                self.assertTrue(match, line)
                yield int(match.group(1))
            finally:
                process.terminate()

    def ask(self, port, text):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while data := connection.recv(1 << 16):
                answer += data
            return answer

    def start_server(self):
        server = {
            **self.container("", env=[{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]),
            "image": os.environ["ADAPTDL_CONFORMANCE_PYTHON_IMAGE"],
            "command": ["python3", "-c", REVERSING]
        }
        self.start(server)
        self.wait_for_phase("Running")
        self.eventually(lambda: "up" in self.log())

    def test_a_port(self):
        self.start_server()
        with self.forwarded(8080) as port:
            for text in (b"hello", b"x" * 3000000 + b"y", b"again"):
                self.assertEqual(self.ask(port, text), text[::-1])

    def test_a_port_that_nobody_serves(self):
        self.run_forever()
        with self.forwarded(8081) as port:
            self.assertEqual(self.ask(port, b""), b"")


if __name__ == "__main__":
    unittest.main()
