"""Where the kubelets serve logs and streams, as kubelets do, and take orders from tests:

    GET    /containerLogs/NAMESPACE/POD/CONTAINER    follow, tailLines, sinceTime, sinceSeconds, timestamps
    POST   /portForward/NAMESPACE/POD                becomes SPDY/3.1: streams.py
    POST   /exec/NAMESPACE/POD/CONTAINER             the same; command (once a word), input, output, error
    POST   /nodes  {"name": "n", ...}                one node more
    DELETE /nodes/NAME                               its object and its machine go
    POST   /nodes/NAME/silence | wake | crash        it says and hears nothing; again; and its processes are killed
    POST   /nodes/NAME/cordon | uncordon
    POST   /pods/NAMESPACE/NAME/evict | oom          by the Eviction subresource; as the kernel, for want of memory
"""

import datetime
import http.server
import json
import sys
import urllib.parse

from . import logs, spdy, streams
from .client import Refused


class NotThere(Exception):
    pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        self._query = dict(urllib.parse.parse_qsl(url.query))
        parts = url.path.strip("/").split("/")
        log = self.server.kubelet.log(*parts[1:]) if len(parts) == 4 and parts[0] == "containerLogs" else None
        if log is None:
            return self._send(404, f"there is no log {url.path}")
        return self._send_log(log)

    def do_POST(self):
        url = urllib.parse.urlsplit(self.path)
        what, *pod = url.path.strip("/").split("/")
        if what == "portForward" and len(pod) == 2:
            return self._forward_ports(*pod)
        if what == "exec" and len(pod) == 3:
            return self._execute(*pod, urllib.parse.parse_qs(url.query))
        return self._obey()

    def do_DELETE(self):
        self._obey()

    def _forward_ports(self, namespace, name):
        pod = self.server.kubelet.pod(namespace, name)
        if pod is None or not pod.ip:
            return self._send(404, f"there is no pod {namespace}/{name}")
        return self._upgrade(streams.PORT_FORWARD, streams.PortForward(pod.ip).opened)

    def _execute(self, namespace, name, container, query):
        pod = self.server.kubelet.pod(namespace, name)
        if pod is None:
            return self._send(404, f"there is no pod {namespace}/{name}")
        if "tty" in query:
            return self._send(400, "this double has no terminals")
        start = lambda: pod.execute(container, query["command"])
        names = [stream for flag, stream in streams.FLAGS.items() if query.get(flag) == ["1"]]
        return self._upgrade(streams.EXEC, streams.Exec(names, start).opened)

    def _upgrade(self, protocol, opened):
        """The connection becomes one of streams."""
        if self.headers.get("Upgrade") != "SPDY/3.1":
            return self._send(400, "of upgrades, this double has SPDY/3.1 alone")
        if protocol not in self.headers.get_all("X-Stream-Protocol-Version", ()):
            return self._send(403, f"of protocols, this double has {protocol} alone")
        self.send_response(101, "Switching Protocols")
        for header, value in (("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", protocol)):
            self.send_header(header, value)
        self.end_headers()
        self.close_connection = True
        return spdy.Session(self.rfile, self.wfile, opened).serve()

    def _obey(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            parts = urllib.parse.unquote(self.path).strip("/").split("/")
            self.server.kubelet.obey(self.command, parts, json.loads(body) if body else None)
        except NotThere as error:
            return self._send(404, f"{self.path}: {error}")
        except (Refused, ValueError, KeyError) as error:
            return self._send(400, repr(error))
        return self._send(200, "")

    def _send(self, code, text):
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_log(self, log):
        query = self._query
        since = logs.parsed(query["sinceTime"]) if "sinceTime" in query else None
        if "sinceSeconds" in query:
            since = datetime.datetime.now(
                datetime.timezone.utc) - datetime.timedelta(seconds=int(query["sinceSeconds"]))
        tail = int(query["tailLines"]) if "tailLines" in query else None
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in log.lines(
                query.get("follow") == "true", tail, since,
                query.get("timestamps") == "true", lambda: not self._client_is_gone()):
            if line:
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def _client_is_gone(self):
        try:
            return self.connection.recv(1, 0x42) == b""  # MSG_PEEK | MSG_DONTWAIT
        except BlockingIOError:
            return False


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, kubelet):
        super().__init__(("127.0.0.1", 0), Handler)
        self.kubelet = kubelet

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)
