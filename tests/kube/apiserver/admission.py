"""Validating webhooks: what others are asked before an object is kept. Their matchConditions are CEL, which is not judged here:
a webhook is asked also where they would spare it that."""

import base64
import json
import ssl
import urllib.request
import uuid

from .errors import ApiError

MATCHED_ANY = "*"


class Admission:
    """Thread-safe. No lock is held while a webhook answers, for it may ask us something."""

    def __init__(self, store, registry):
        self._store, self._registry = store, registry

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
                answer = _ask(hook, request)
            except (OSError, ValueError) as error:
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


def _ask(hook, request):
    config = hook["clientConfig"]
    if "url" not in config:
        raise ValueError("of webhooks, this double reaches those with a URL only")
    context = ssl.create_default_context(cadata=base64.b64decode(config.get("caBundle", "")).decode() or None)
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    call = urllib.request.Request(config["url"], json.dumps(review).encode(),
                                  {"Content-Type": "application/json"})
    with urllib.request.urlopen(call, timeout=hook.get("timeoutSeconds", 10), context=context) as response:
        answer = json.load(response)
    if answer["response"]["uid"] != request["uid"]:
        raise ValueError("the answer is to another question")
    return answer["response"]
