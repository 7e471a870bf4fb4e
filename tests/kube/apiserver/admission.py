"""Validating webhooks: what others are asked before an object is kept. Their matchConditions are CEL, which is not judged here:
a webhook is asked also where they would spare it that."""

import base64
import contextlib
import http.client
import json
import socket
import ssl
import urllib.parse
import uuid

from .errors import ApiError

MATCHED_ANY = "*"


class Admission:
    """Thread-safe. No lock is held while a webhook answers, for it may ask us something."""

    def __init__(self, store, registry, services_file=None):
        """`services_file`: where services are, as JSON: {"name.namespace.svc:443": "127.0.0.1:4711"}; read at each call."""
        self._store, self._registry, self._services_file = store, registry, services_file

    def hooks(self, kind, operation, subresource):
        """The webhooks that are asked about this."""
        configurations, _ = self._store.list(
            self._registry.find("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"))
        resource = kind.plural + ("/" + subresource if subresource else "")
        return [
            hook for configuration in configurations for hook in configuration.get("webhooks") or ()
            if any(_matches(rule, kind, operation, resource) for rule in hook.get("rules") or ())
        ]

    def check(self, hooks, request):
        """Raises the refusal of one of them."""
        for hook in hooks:
            try:
                answer = self._ask(hook, request)
            except (OSError, ValueError, http.client.HTTPException) as error:
                if hook.get("failurePolicy", "Fail") == "Ignore":
                    continue
                raise ApiError(500, "InternalError",
                               f'failed calling webhook "{hook["name"]}": {error}') from error
            if not answer.get("allowed"):
                status = answer.get("status") or {}
                raise ApiError(
                    status.get("code", 403), status.get("reason", "Forbidden"),
                    f'admission webhook "{hook["name"]}" denied the request: ' +
                    status.get("message", "no reason"))

    def _ask(self, hook, request):
        host, port, path, place = self._target(hook["clientConfig"])
        context = ssl.create_default_context(
            cadata=base64.b64decode(hook["clientConfig"].get("caBundle", "")).decode() or None)
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        with socket.create_connection(place, timeout=hook.get("timeoutSeconds", 10)) as plain:
            connection = http.client.HTTPSConnection(host, port)
            connection.sock = context.wrap_socket(plain, server_hostname=host)
            with contextlib.closing(connection):
                connection.request("POST", path, json.dumps(review), {"Content-Type": "application/json"})
                response = connection.getresponse()
                if response.status != 200:
                    raise ValueError(f"the answer was {response.status}: {response.read(200)!r}")
                answer = json.load(response)
        if answer["response"]["uid"] != request["uid"]:
            raise ValueError("the answer is to another question")
        return answer["response"]

    def _target(self, config):
        """Whose certificate is expected, its port, the path, and the address that is connected to."""
        if "url" in config:
            url = urllib.parse.urlsplit(config["url"])
            return url.hostname, url.port or 443, url.path or "/", (url.hostname, url.port or 443)
        service = config["service"]
        host, port = f'{service["name"]}.{service["namespace"]}.svc', service.get("port", 443)
        if not self._services_file:
            raise ValueError("this double knows no services: --services")
        with open(self._services_file, encoding="utf-8") as file:
            place = json.load(file).get(f"{host}:{port}")
        if place is None:
            raise ValueError(f'service "{service["name"]}" not found')
        address, _, number = place.rpartition(":")
        return host, port, service.get("path", "/"), (address, int(number))


def request_of(kind, key, operation, subresource, user, old, new, dry_run):
    """An AdmissionRequest."""
    group_kind = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    return {
        "uid": str(uuid.uuid4()),
        "kind": group_kind,
        "resource": resource,
        "requestKind": group_kind,
        "requestResource": resource,
        "subResource": subresource,
        "name": key[1],
        "namespace": key[0],
        "operation": operation,
        "userInfo": {
            "username": user.name,
            "groups": list(user.groups)
        },
        "object": new,
        "oldObject": old,
        "dryRun": dry_run
    }


def _matches(rule, kind, operation, resource):

    def has(name, value):
        return MATCHED_ANY in rule.get(name, ()) or value in rule.get(name, ())

    return (has("apiGroups", kind.group) and has("apiVersions", kind.version)
            and has("operations", operation) and resource in rule.get("resources", ())
            and rule.get("scope", MATCHED_ANY) in (MATCHED_ANY, "Namespaced" if kind.namespaced else "Cluster"))
