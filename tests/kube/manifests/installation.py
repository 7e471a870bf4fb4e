"""Installs rendered manifests in a cluster of doubles: objects go to the API server, and the control plane's containers are processes of
this machine, with the flags, the Secrets and the account that their manifest gives them.

What differs from a cluster: addresses of services and ports are those of this machine, and the account's token comes by a kubeconfig."""

import base64
import http.client
import json
import os
import pathlib
import re
import socket
import ssl
import subprocess
import time

import manifests

# What this takes the part of, and what the double of an API server has not: nobody here routes or drains.
OURS = ("Deployment", "StatefulSet")
NOT_OF_THE_DOUBLE = ("PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "PrometheusRule")
PATIENCE = 30
WEBHOOK = "adaptdl-webhook.adaptdl.svc:443"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what, condition, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience} s: {what}")
        time.sleep(0.05)
    return found


class Pod:
    """One pod of a workload: its one container is a process."""

    def __init__(self, installation, workload, name):
        self.name, self.port = name, free_port()
        self._installation, self._workload = installation, workload
        self._spec = workload["spec"]["template"]["spec"]
        [self._container] = self._spec["containers"]
        self.folder = installation.folder / name
        self._address_file = self.folder / "address"
        self._process = None

    def start(self, more_arguments=()):
        self.folder.mkdir()
        self._mount()
        self._make_object()
        arguments = [*map(self._of_here, self._container["args"]), *more_arguments]
        # It listens on its own address in a cluster, and on a port of this machine here.
        arguments = [re.sub(r"=0\.0\.0\.0:\d+$", "=127.0.0.1:0", argument) for argument in arguments]
        with open(self.folder / "log", "w", encoding="utf-8") as log:
            self._process = subprocess.Popen([manifests_binary(self._container["command"][0]), *arguments],
                                             env=self._environment(),
                                             stdin=subprocess.DEVNULL,
                                             stdout=log,
                                             stderr=log)

    def webhook_address(self):
        return wait_until(f"{self.name} says its webhook's address", lambda: self._read(".webhook"))

    def is_ready(self):
        """What its readiness probe says."""
        if self._process.poll() is not None:
            raise AssertionError(f"{self.name} ended: {self.log()}")
        probe = self._container["readinessProbe"]
        if "exec" in probe:
            command = [self._of_here(word).replace("127.0.0.1:7100", f"127.0.0.1:{self.port}")
                       for word in probe["exec"]["command"]]
            done = subprocess.run([manifests_binary(command[0]), *command[1:]], env=self._environment(), check=False,
                                  capture_output=True)
            return done.returncode == 0
        # As the kubelet, which does not verify certificates of pods.
        connection = http.client.HTTPSConnection(self.webhook_address(), timeout=5,
                                                 context=ssl._create_unverified_context())
        connection.request("GET", probe["httpGet"]["path"])
        answer = connection.getresponse().status
        connection.close()
        return answer == 200

    def leads(self):
        """A standby refuses connections."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def log(self):
        return (self.folder / "log").read_text(encoding="utf-8")

    def end(self, kill=False):
        if self._process is not None and self._process.poll() is None:
            self._process.kill() if kill else self._process.terminate()
            self._process.wait()

    def _read(self, ending):
        path = pathlib.Path(str(self._address_file) + ending)
        return path.read_text(encoding="utf-8").strip() if path.exists() else ""

    def _mount(self):
        for mount in self._container["volumeMounts"]:
            [volume] = [each for each in self._spec["volumes"] if each["name"] == mount["name"]]
            place = self._place(mount["mountPath"])
            place.mkdir(parents=True)
            if "emptyDir" in volume:
                continue
            secret = self._installation.cluster.root.get("Secret", volume["secret"]["secretName"],
                                                         self._workload["metadata"]["namespace"], "v1")
            for name, content in secret["data"].items():
                (place / name).write_bytes(base64.b64decode(content))

    def _make_object(self):
        """The pod, which is nobody's to run."""
        template = self._workload["spec"]["template"]
        self._installation.cluster.root.create({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.name, "namespace": self._workload["metadata"]["namespace"],
                         "labels": template["metadata"]["labels"]},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "program", "image": "of-this-machine"}]}})

    def labels(self):
        return self._installation.cluster.root.get("Pod", self.name, "adaptdl", "v1")["metadata"]["labels"]

    def _place(self, path):
        return self.folder / "root" / path.lstrip("/")

    def _of_here(self, word):
        """A word of the manifest, with this pod's folders and this machine's addresses."""
        mounts = "|".join(re.escape(mount["mountPath"]) for mount in self._container["volumeMounts"])
        word = word.replace("$(POD_NAME)", self.name)
        word = re.sub(rf"(?:^|(?<==))(?:{mounts})(?=/|$)", lambda match: str(self._place(match.group())), word)
        return self._installation.of_here(word)

    def _environment(self):
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.folder),
                     "ADAPTDL_SERVER_LISTEN": f"127.0.0.1:{self.port}",
                     "ADAPTDL_SERVER_METRICS_LISTEN": "127.0.0.1:0",
                     "ADAPTDL_SERVER_ADDRESS_FILE": str(self._address_file)}
        variables |= {each["name"]: self._of_here(each["value"]) for each in self._container.get("env", ())
                      if "value" in each}
        account = self._spec.get("serviceAccountName")
        if self._spec["automountServiceAccountToken"]:
            variables["KUBECONFIG"] = str(self._installation.kubeconfig(account))
        return variables


def manifests_binary(name):
    return str(pathlib.Path(os.environ["ADAPTDL_BIN"]) / name)


class Installation:

    def __init__(self, cluster, folder, items):
        self.cluster, self.folder, self._items = cluster, pathlib.Path(folder), items
        self.folder.mkdir()
        self.pods = {}

    def bring_in_objects(self):
        for item in self._items:
            if item["kind"] not in OURS + NOT_OF_THE_DOUBLE:
                self.cluster.root.apply(item)

    def bring_in_secrets(self):
        """As docs/kubernetes-install.md says."""
        command = [manifests_binary("adaptdl"), "admin", "kubernetes-secrets", "--keys", str(self.folder / "keys")]
        secrets = subprocess.run([*command, "-o", "json"], check=True, capture_output=True, text=True).stdout
        for item in json.loads(secrets)["items"]:
            self.cluster.root.create(item)
        patch = subprocess.run([*command, "--webhook-patch"], check=True, capture_output=True, text=True).stdout
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/adaptdl"
        self.cluster.root.call("PATCH", path, json.loads(patch), "application/json-patch+json")

    def start(self, more_arguments=None):
        """`more_arguments`: {"supervisor": [...]}."""
        for workload in manifests.workloads(self._items):
            name = workload["metadata"]["name"]
            for index in range(workload["spec"]["replicas"]):
                self.pods[f"{name}-{index}"] = Pod(self, workload, f"{name}-{index}")
        for name, pod in self.pods.items():
            pod.start((more_arguments or {}).get(name.split("-")[1], ()))
        for pod in self.pods.values():
            wait_until(f"{pod.name} is ready", pod.is_ready)

    def serve_webhook_by(self, pod):
        self.cluster.services_file.write_text(json.dumps({WEBHOOK: pod.webhook_address()}))

    def supervisors(self):
        return [pod for name, pod in self.pods.items() if name.startswith("adaptdl-supervisor-")]

    def leader(self):
        return wait_until("a supervisor leads", lambda: next((pod for pod in self.supervisors() if pod.leads()), None))

    def of_here(self, word):
        """Addresses of pods and services, as they are on this machine."""
        for name, pod in self.pods.items():
            service = name.rsplit("-", 1)[0]
            word = word.replace(f"{name}.{service}.adaptdl.svc:7100", f"127.0.0.1:{pod.port}")
            word = re.sub(rf"(?<![\w-]){service}:7100", f"127.0.0.1:{pod.port}", word)
        return word

    def kubeconfig(self, account):
        path = self.folder / f"kubeconfig-{account}"
        if not path.exists():
            token = self.cluster.root.token_of(account, "adaptdl")
            path.write_text(json.dumps({
                "apiVersion": "v1", "kind": "Config", "current-context": "test",
                "clusters": [{"name": "test", "cluster": {"server": self.cluster.url}}],
                "users": [{"name": "test", "user": {"token": token}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}))
        return path

    def run(self, token, *arguments, code=0):
        """The command, by somebody with this token. What it prints."""
        path = self.folder / "token"
        path.write_text(token)
        addresses = ",".join(f"127.0.0.1:{pod.port}" for pod in self.supervisors())
        command = [manifests_binary("adaptdl"), *arguments[:1], "--supervisor", addresses, "--ca",
                   str(self.folder / "keys/ca.pem"), "--token-file", str(path), *arguments[1:]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.folder)})
        if done.returncode != code:
            raise AssertionError(f"{command}: {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def end(self):
        for pod in reversed(self.pods.values()):
            pod.end()
