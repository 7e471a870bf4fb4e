"""What the paths of requests are about."""

import urllib.parse

from .errors import ApiError
from .rbac import Request

# Subresources that are no objects.
ACTIONS = (("pods", "binding"), ("pods", "eviction"), ("pods", "log"), ("pods", "exec"),
           ("pods", "portforward"), ("serviceaccounts", "token"))


def not_there(path):
    return ApiError(404, "NotFound", f"the server could not find the requested resource ({path})")


class Address:
    """What a path is about: a type's collection, an object, a subresource."""

    def __init__(self, registry, path):
        parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
        if parts[0] == "api" and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            raise not_there(path)
        self.namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            self.namespace, rest = rest[1], rest[2:]
        self.kind = registry.find(group, version, rest[0])
        self.name = rest[1] if len(rest) > 1 else ""
        self.subresource = rest[2] if len(rest) > 2 else ""
        known = self.kind and len(rest) <= 3 and (self.kind.namespaced or not self.namespace) and (
            not self.subresource or self.subresource == "status" and self.kind.has_status
            or self.subresource == "scale" and self.kind.scale or (rest[0], self.subresource) in ACTIONS)
        if not known:
            raise not_there(path)

    @property
    def key(self):
        return self.namespace, self.name

    def request(self, verb):
        """What is asked for, as roles have it."""
        resource = self.kind.plural + ("/" + self.subresource if self.subresource else "")
        return Request(verb, self.kind.group, resource, self.namespace, self.name)
