"""Calls to the API server, and a copy of a collection that follows it."""

import http.client
import json
import threading
import time
import urllib.parse

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
# Between attempts, when the server is not there.
RETRY_SECONDS = 0.1


class Refused(Exception):
    """The server's answer is an error."""

    def __init__(self, code, status):
        super().__init__(f"{code}: {status.get('message')}")
        self.code = code


class Client:
    """Thread-safe: each thread has a connection of its own."""

    def __init__(self, url, token=""):
        self._host = urllib.parse.urlsplit(url).netloc
        self._token = token
        self._local = threading.local()

    def headers(self, content_type="application/json"):
        headers = {"Content-Type": content_type, "Accept": "application/json", "User-Agent": "kubelet/1"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def connect(self, timeout=30):
        return http.client.HTTPConnection(self._host, timeout=timeout)

    def call(self, method, path, body=None, content_type="application/json"):
        """The answer, for which it waits as long as the server is away."""
        data = None if body is None else json.dumps(body)
        while True:
            connection = getattr(self._local, "connection", None) or self.connect()
            try:
                connection.request(method, path, data, self.headers(content_type))
                response = connection.getresponse()
                answer = json.loads(response.read())
            except (OSError, http.client.HTTPException):
                connection.close()
                self._local.connection = None
                time.sleep(RETRY_SECONDS)
                continue
            self._local.connection = connection
            if response.status in (429, 503):
                time.sleep(float(response.headers.get("Retry-After") or RETRY_SECONDS))
                continue
            if response.status >= 400:
                raise Refused(response.status, answer)
            return answer

    def get(self, path):
        """The object; None: there is none."""
        try:
            return self.call("GET", path)
        except Refused as error:
            if error.code == 404:
                return None
            raise

    def patch_status(self, path, status):
        """False: it is not there any more."""
        try:
            self.call("PATCH", path + "/status", {"status": status}, STRATEGIC)
            return True
        except Refused as error:
            if error.code == 404:
                return False
            raise


class Reflector:
    """Tells what is in a collection: on_change(object), on_gone(object), on its own thread."""

    def __init__(self, client, path, on_change, on_gone):
        self._client, self._path, self._on_change, self._on_gone = client, path, on_change, on_gone
        self._known = {}
        self.synced = threading.Event()

    def start(self):
        threading.Thread(target=self._run, daemon=True).start()
        self.synced.wait()

    def _run(self):
        while True:
            try:
                version = self._list()
                self.synced.set()
                self._watch(version)
            except (OSError, http.client.HTTPException, ValueError, Refused):
                time.sleep(RETRY_SECONDS)

    def _list(self):
        answer = self._client.call("GET", self._path)
        present = {item["metadata"]["uid"]: item for item in answer["items"]}
        for uid in [uid for uid in self._known if uid not in present]:
            self._on_gone(self._known.pop(uid))
        for uid, item in present.items():
            self._known[uid] = item
            self._on_change(item)
        return answer["metadata"]["resourceVersion"]

    def _watch(self, version):
        connection = self._client.connect(timeout=120)
        try:
            query = f"?watch=true&resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=60"
            connection.request("GET", self._path + query, None, self._client.headers())
            response = connection.getresponse()
            if response.status != 200:
                raise Refused(response.status, json.loads(response.read()))
            for line in response:
                self._take(json.loads(line))
        finally:
            connection.close()

    def _take(self, event):
        if event["type"] == "ERROR":
            raise ValueError(event["object"].get("message"))
        if event["type"] == "BOOKMARK":
            return
        item = event["object"]
        if event["type"] == "DELETED":
            self._known.pop(item["metadata"]["uid"], None)
            self._on_gone(item)
        else:
            self._known[item["metadata"]["uid"]] = item
            self._on_change(item)
