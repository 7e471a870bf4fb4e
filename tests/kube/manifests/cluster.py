"""The doubles of an API server, which asks everybody for a token, and of a kubelet, as processes of a test; and calls to the API server."""

import contextlib
import json
import pathlib
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

KUBE = pathlib.Path(__file__).resolve().parents[1]
ROOT_TOKEN = "the-token-of-root"
# Says that this machine does not permit what containers need.
SKIPPED = 77
PLURALS = {
    "AdaptDLJob": "adaptdljobs",
    "AdaptDLQuota": "adaptdlquotas",
    "NetworkPolicy": "networkpolicies",
    "PriorityClass": "priorityclasses",
    "StorageClass": "storageclasses",
}


class Refused(Exception):
    """What the API server says, and its code."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


class Api:
    """The API server, as seen by the owner of a token."""

    def __init__(self, url, token):
        self.url, self._token = url, token

    def call(self, method, path, body=None, content_type="application/json"):
        request = urllib.request.Request(self.url + path, method=method, headers={
            "Authorization": f"Bearer {self._token}",
            "Content-Type": content_type,
            "User-Agent": "test"
        })
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, timeout=30) as response:
                return json.loads(response.read() or "null")
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            with contextlib.suppress(ValueError):
                text = json.loads(text).get("message", text)
            raise Refused(error.code, text) from None

    def create(self, obj):
        return self.call("POST", collection_of(obj) + "?fieldManager=test", obj)

    def apply(self, obj):
        """By server-side apply."""
        path = f'{collection_of(obj)}/{obj["metadata"]["name"]}?fieldManager=test&force=true'
        return self.call("PATCH", path, obj, "application/apply-patch+yaml")

    def get(self, kind, name, namespace="default", api_version="adaptdl.petuum.com/v1"):
        obj = {"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace}}
        return self.call("GET", f"{collection_of(obj)}/{name}")

    def token_of(self, account, namespace, audience=None):
        """A token of a service account, as kubectl create token makes it."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        if audience:
            body["spec"]["audiences"] = [audience]
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        return self.call("POST", path, body)["status"]["token"]


def collection_of(obj):
    version, namespace = obj["apiVersion"], obj["metadata"].get("namespace")
    plural = PLURALS.get(obj["kind"], obj["kind"].lower() + "s")
    return "".join((f"/apis/{version}" if "/" in version else f"/api/{version}",
                    f"/namespaces/{namespace}" if namespace else "", f"/{plural}"))


class Cluster:
    """Ends with the context."""

    def __init__(self, folder, nodes, images):
        self._folder = pathlib.Path(folder)
        self.services_file = self._folder / "services.json"
        self.services_file.write_text("{}")
        (self._folder / "people").write_text(f'{ROOT_TOKEN},root,1,"system:masters"\n')
        (self._folder / "nodes.json").write_text(json.dumps(nodes))
        (self._folder / "images.json").write_text(json.dumps(images))
        self._processes = []
        self.url = self._start("apiserver", "--token-auth-file", self._folder / "people", "--services",
                               self.services_file, "--bookmark-period", "1")
        self.root = Api(self.url, ROOT_TOKEN)

    def start_nodes(self):
        """Whether this machine lets containers run."""
        return bool(
            self._start("kubelet", "--server", self.url, "--token", ROOT_TOKEN, "--nodes", self._folder / "nodes.json",
                        "--images", self._folder / "images.json", "--root", self._folder / "root"))

    def end(self):
        for process in reversed(self._processes):
            process.terminate()
            process.wait()
            process.stdout.close()

    def _start(self, module, *arguments):
        process = subprocess.Popen([sys.executable, "-m", module, *map(str, arguments)],
                                   stdout=subprocess.PIPE,
                                   text=True,
                                   cwd=KUBE)
        self._processes.append(process)
        address = process.stdout.readline().strip()
        if not address.startswith("http://") and process.wait() != SKIPPED:
            raise AssertionError(f"{module} did not say where it serves, but: {address!r}")
        return address
