"""Who may do what: roles and their bindings, SubjectAccessReview, and SelfSubjectAccessReview."""

import dataclasses

from .identity import User

GROUP = "rbac.authorization.k8s.io"
# May do anything, whatever the roles say.
MASTERS = "system:masters"


@dataclasses.dataclass(frozen=True)
class Request:
    verb: str
    group: str
    # "pods", "pods/log".
    resource: str
    namespace: str = ""
    name: str = ""


def allows(rule, request):

    def has(values, value):
        return "*" in values or value in values

    resources = rule.get("resources") or ()
    subresource = "*/" + request.resource.partition("/")[2] if "/" in request.resource else ""
    return (has(rule.get("verbs") or (), request.verb) and has(rule.get("apiGroups") or (), request.group)
            and (has(resources, request.resource) or subresource in resources)
            and (not rule.get("resourceNames") or request.name in rule["resourceNames"]))


def concerns(subject, user, namespace):
    if subject["kind"] == "User":
        return subject["name"] == user.name
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    return user.name == f"system:serviceaccount:{subject.get('namespace') or namespace}:{subject['name']}"


class Authorizer:

    def __init__(self, store, registry):
        self._store, self._registry = store, registry

    def _kind(self, plural):
        return self._registry.find(GROUP, "v1", plural)

    def why(self, user, request):
        """Why it is allowed. None: it is not."""
        if MASTERS in user.groups:
            return f"by the group {MASTERS}"
        bindings, _ = self._store.list(self._kind("clusterrolebindings"))
        if request.namespace:
            bindings = bindings + self._store.list(self._kind("rolebindings"), request.namespace)[0]
        for binding in bindings:
            metadata = binding["metadata"]
            if any(
                    concerns(subject, user, metadata.get("namespace"))
                    for subject in binding.get("subjects") or ()):
                if any(allows(rule, request) for rule in self._rules_of(binding)):
                    return f"RBAC: allowed by {binding['kind']} \"{metadata['name']}\""
        return None

    def _rules_of(self, binding):
        reference = binding["roleRef"]
        if reference["kind"] == "ClusterRole":
            role = self._store.get(self._kind("clusterroles"), ("", reference["name"]))
        else:
            role = self._store.get(self._kind("roles"), (binding["metadata"]["namespace"], reference["name"]))
        return (role or {}).get("rules") or ()

    def review(self, body, asker=None):
        """The answer to a SubjectAccessReview, or with `asker` to a SelfSubjectAccessReview."""
        spec = body.get("spec") or {}
        user = asker or User(spec.get("user", ""), tuple(spec.get("groups") or ()))
        asked = spec.get("resourceAttributes") or {}
        resource = asked.get("resource",
                             "") + ("/" + asked["subresource"] if asked.get("subresource") else "")
        why = self.why(
            user,
            Request(asked.get("verb", ""), asked.get("group", ""), resource, asked.get("namespace", ""),
                    asked.get("name", "")))
        status = {"allowed": True, "reason": why} if why else {"allowed": False}
        return {
            "kind": body.get("kind"),
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": spec,
            "status": status
        }
