"""The server's addresses, over HTTP/1.1. A thread serves each connection."""

import dataclasses
import http.server
import json
import select
import ssl
import sys
import urllib.parse

from . import admission, discovery, faults, pods, tunnel
from .address import Address
from .cut import Cut
from .errors import ApiError, bad_request
from .identity import User
from .rbac import MASTERS, Request
from .rest import Change
from .selectors import Selector
from .watches import Watch

PATCHES = ("application/json-patch+json", "application/merge-patch+json",
           "application/strategic-merge-patch+json")
REVIEWS = {
    "/apis/authentication.k8s.io/v1/tokenreviews": ("authentication.k8s.io", "tokenreviews"),
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": ("authorization.k8s.io", "subjectaccessreviews"),
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
    ("authorization.k8s.io", "selfsubjectaccessreviews")
}
APPLY = "application/apply-patch+yaml"
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body go out together; without, each small answer waits for the client's acknowledgement.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def do_GET(self):
        self._answer_safely(self._get)

    def do_POST(self):
        self._answer_safely(self._post)

    def do_PUT(self):
        self._answer_safely(self._put)

    def do_PATCH(self):
        self._answer_safely(self._patch)

    def do_DELETE(self):
        self._answer_safely(self._delete)

    # Requests.

    def _answer_safely(self, serve):
        url = urllib.parse.urlsplit(self.path)
        self.url_path = url.path
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        self.raw_body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.is_cut_after, self.halt = False, None
        try:
            if url.path.startswith(faults.PREFIX):
                what = url.path.removeprefix(faults.PREFIX)
                self._send(
                    200, self.api.faults.control(self.command, what,
                                                 self._body() if self.raw_body else None))
            else:
                self._identify()
                serve()
        except ApiError as error:
            self._send(error.code, error.status(), getattr(error, "retry_after", None))
        except ConnectionError:
            self.close_connection = True

    @property
    def api(self):
        return self.server.api

    @property
    def _agent(self):
        return self.headers.get("User-Agent") or "unknown"

    def _identify(self):
        """Sets who asks."""
        self.user = User("anybody", (MASTERS, ))
        if self.api.is_open:
            return
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        try:
            self.user, _ = self.api.tokens.user_of(token if scheme == "Bearer" else "")
        except ValueError:
            raise ApiError(401, "Unauthorized", "Unauthorized") from None

    def _check_rights(self, request):
        allowed = self.api.authorizer.why(self.user, request) is not None
        self.api.faults.rights.note(self.user, request, allowed)
        if not allowed:
            resource = request.resource + ("." + request.group if request.group else "")
            raise ApiError(
                403, "Forbidden", f'{resource} is forbidden: User "{self.user.name}" cannot {request.verb} '
                f'resource "{request.resource}" in API group "{request.group}"' +
                (f' in the namespace "{request.namespace}"' if request.namespace else ""))

    def _address(self, verb, verb_of_collection=None):
        """What the request is about, if it is allowed."""
        address = Address(self.api.registry, self.url_path)
        self._meet(address.request(verb if address.name else verb_of_collection or verb))
        return address

    def _meet(self, request):
        """The rights to do it, and what a test wants to go wrong."""
        self._check_rights(request)
        self.halt = self.api.faults.halts.meet(self._agent, request.verb, request.resource)
        self.is_cut_after = self.api.faults.meet(self._agent, request.verb, request.resource)

    def _body(self):
        try:
            return json.loads(self.raw_body)
        except ValueError as error:
            raise bad_request(f"the body is not JSON: {error}") from error

    def _change(self, manager=None):
        dry_run = self.query.get("dryRun", "")
        if dry_run not in ("", "All"):
            raise bad_request(f"Invalid value: {dry_run}: dryRun is to be All")
        return Change(
            self.query.get("fieldManager") or (self._agent.split("/")[0] if manager is None else manager), bool(dry_run),
            self.query.get("fieldValidation", "Warn"),
            self.query.get("force") == "true")

    def _admitted(self, address, operation, act):
        """What act(change) returns, when all webhooks that are asked about it have agreed."""
        change = self._change("" if operation == "APPLY" else None)
        store, kind, key = self.api.store, address.kind, address.key
        if operation == "APPLY":
            operation = "UPDATE" if store.get(kind, key) else "CREATE"
        hooks = self.api.admission.hooks(kind, operation, address.subresource)
        while hooks:
            old = store.get(kind, key)
            new = act(dataclasses.replace(change, dry_run=True))
            self.api.admission.check(
                hooks,
                admission.request_of(kind, key, operation, address.subresource, self.user, old, new,
                                     change.dry_run))
            with store.lock:
                if store.get(kind, key) is old:
                    return act(change)
        return act(change)

    def _get(self):
        found = discovery.document(self.api.registry, self.url_path)
        if found is not None:
            return self._send(200, found)
        is_watch = self.query.get("watch") in ("true", "1")
        address = self._address("get", "watch" if is_watch else "list")
        if address.subresource == "log":
            return self._send_log(
                pods.open_log(self.api.registry, self.api.rest, address.kind, address.key, self.query))
        if address.subresource in tunnel.STREAMS:
            raise bad_request("streams are had by POST and SPDY/3.1 here")
        if address.name:
            obj = self.api.rest.get(address.kind, address.key, address.subresource)
            return self._send_object(address, 200, obj)
        if is_watch:
            return self._watch(address)
        return self._list(address)

    def _selector(self):
        return Selector(self.query.get("labelSelector", ""), self.query.get("fieldSelector", ""))

    def _list(self, address):
        objects, revision, following, left = self.api.rest.list(address.kind, address.namespace,
                                                                self._selector(),
                                                                int(self.query.get("limit") or 0),
                                                                self.query.get("continue", ""))
        if self._wants_table():
            return self._send(200, discovery.table(address.kind, objects, revision))
        metadata = {"resourceVersion": str(revision)}
        if following:
            metadata.update({"continue": following, "remainingItemCount": left})
        # As the API server does, without the type of each.
        items = objects if address.kind.is_custom else [{
            name: value
            for name, value in obj.items() if name not in ("apiVersion", "kind")
        } for obj in objects]
        self._send(
            200, {
                "kind": address.kind.kind + "List",
                "apiVersion": address.kind.api_version,
                "metadata": metadata,
                "items": items
            })

    def _watch(self, address):
        watch = Watch(self.api.store, address.kind, address.namespace, self._selector(),
                      self.query.get("allowWatchBookmarks") == "true",
                      int(self.query.get("timeoutSeconds") or 1800), self.api.bookmark_period)
        cuts = self.api.faults.cuts
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in watch.lines(self.query.get("resourceVersion", "")):
            # Before it is written: what happens after a cut is not told.
            if self.api.faults.cuts != cuts or (not line and self._client_is_gone()):
                raise Cut
            if line:
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _client_is_gone(self):
        poll = select.poll()
        poll.register(self.connection, select.POLLRDHUP)
        return bool(poll.poll(0))

    def _post(self):
        if self.url_path in REVIEWS:
            return self._review(*REVIEWS[self.url_path])
        address = self._address("create")
        if address.subresource == "binding":
            self.api.rest.bind(address.key, self._body())
            return self._send(201, SUCCESS)
        if address.subresource == "eviction":
            pods.evict(self.api.rest, address.kind, address.key, self._body())
            return self._send(201, SUCCESS)
        if address.subresource in tunnel.STREAMS:
            return self._open_tunnel(address)
        if address.subresource == "token":
            account = self.api.rest.get(address.kind, address.key)
            return self._send(201, self.api.tokens.request(address.kind, account, self._body()))
        if address.name:
            raise ApiError(405, "MethodNotAllowed",
                           "the server does not allow this method on the requested resource")
        body = self._body()
        obj = self._admitted(address, "CREATE",
                             lambda change: self.api.rest.create(address.kind, address.namespace, body, change))
        return self._send_object(address, 201, obj)

    def _open_tunnel(self, address):
        """To the kubelet, which is asked the same, and from then on what either says is the other's to hear."""
        pairs = urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query)
        path = pods.stream_path(self.api.rest, address.kind, address.key, address.subresource, pairs)
        with pods.connect(self.api.registry, self.api.rest, address.kind, address.key) as kubelet:
            self.close_connection = True
            tunnel.ask(kubelet, path, self.headers)
            tunnel.join(self.connection, kubelet)

    def _review(self, group, plural):
        if plural == "selfsubjectaccessreviews":  # of which anybody may ask
            return self._send(201, self.api.authorizer.review(self._body(), self.user))
        self._meet(Request("create", group, plural))
        reviewer = self.api.tokens if plural == "tokenreviews" else self.api.authorizer
        return self._send(201, reviewer.review(self._body()))

    def _put(self):
        address = self._address("update")
        body = self._body()
        obj = self._admitted(
            address, "UPDATE", lambda change: self.api.rest.replace(address.kind, address.key, body, change,
                                                                    address.subresource))
        self._send_object(address, 200, obj)

    def _patch(self):
        address = self._address("patch")
        patch_type = (self.headers.get("Content-Type") or "").split(";")[0]
        if patch_type == APPLY:
            known = self.api.store.get(address.kind, address.key)
            if known is None:
                self._check_rights(address.request("create"))
            config = self._apply_body()
            obj = self._admitted(
                address, "APPLY", lambda change: self.api.rest.apply(address.kind, address.key, config, change,
                                                                     address.subresource))
            return self._send_object(address, 200 if known else 201, obj)
        if patch_type not in PATCHES:
            raise ApiError(415, "UnsupportedMediaType",
                           f"the body of the request was in an unknown format: {patch_type}")
        body = self._body()
        obj = self._admitted(
            address, "UPDATE", lambda change: self.api.rest.patch(address.kind, address.key, body, patch_type,
                                                                  change, address.subresource))
        self._send_object(address, 200, obj)

    def _apply_body(self):
        try:
            return json.loads(self.raw_body)
        except ValueError:
            raise bad_request("of YAML, this double reads JSON only") from None

    def _delete(self):
        address = self._address("delete", "deletecollection")
        options = json.loads(self.raw_body) if self.raw_body else {}
        options.update({name: self.query[name] for name in ("propagationPolicy", ) if name in self.query})
        if "gracePeriodSeconds" in self.query:
            options["gracePeriodSeconds"] = int(self.query["gracePeriodSeconds"])
        dry_run = options.get("dryRun") == ["All"] or self.query.get("dryRun") == "All"
        if address.name:
            obj, gone = self.api.rest.delete(address.kind, address.key, options, dry_run)
            if not gone or address.kind.kind == "Pod":
                return self._send_object(address, 200, obj)
            return self._send(
                200, {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "metadata": {},
                    "status": "Success",
                    "details": {
                        "name": address.name,
                        "group": address.kind.group,
                        "kind": address.kind.plural,
                        "uid": obj["metadata"]["uid"]
                    }
                })
        objects, revision, _, _ = self.api.rest.list(address.kind, address.namespace, self._selector())
        for obj in objects:
            metadata = obj["metadata"]
            self.api.rest.delete(address.kind, (metadata.get("namespace", ""), metadata["name"]), options,
                                 dry_run)
        return self._send(
            200, {
                "kind": address.kind.kind + "List",
                "apiVersion": address.kind.api_version,
                "metadata": {
                    "resourceVersion": str(revision)
                },
                "items": objects
            })

    # Answers.

    def _wants_table(self):
        return "as=Table" in (self.headers.get("Accept") or "")

    def _send_object(self, address, code, obj):
        if self._wants_table() and self.command == "GET":
            return self._send(200, discovery.table(address.kind, [obj], obj["metadata"]["resourceVersion"]))
        return self._send(code, obj)

    def _send_log(self, log):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with log:
            while data := log.read1(1 << 16):
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, code, body, retry_after=None):
        if self.halt:
            self.api.faults.halts.hold(self.halt)
        if self.is_cut_after:
            raise Cut
        data = json.dumps(body, separators=(",", ":")).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()
        self.wfile.write(data)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address, api, certificate=None):
        """`certificate`: files of it and of its key; then it speaks TLS."""
        super().__init__(address, Handler)
        self.api = api
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            # The handshake is for the thread of the connection: nobody else is to wait for it.
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request, client_address):
        # A client that goes away in the midst of an answer is none of our errors.
        if not isinstance(sys.exc_info()[1], (ConnectionError, ssl.SSLError)):
            super().handle_error(request, client_address)
