"""The environment of a container, and what may stand in its command and arguments."""

import decimal
import re

from . import fit

REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z0-9_.-]+)\)")
FIELD = re.compile(r"^metadata\.(labels|annotations)\['(.+)'\]$")


class Missing(Exception):
    """What a container needs is not there. The kubelet says so, and tries again."""

    def __init__(self, message, reason="CreateContainerConfigError"):
        super().__init__(message)
        self.reason = reason


def expanded(text, values):
    """$(NAME) by its value, if it has one; $$(NAME) is $(NAME)."""

    def replace(match):
        if match[0] == "$$":
            return "$"
        return values.get(match[1], match[0])

    return REFERENCE.sub(replace, text)


def field(pod, path, pod_ip, node_ip):
    """By a fieldRef."""
    metadata, spec = pod["metadata"], pod["spec"]
    match = FIELD.match(path)
    if match:
        return (metadata.get(match[1]) or {}).get(match[2], "")
    if path in ("metadata.labels", "metadata.annotations"):
        values = metadata.get(path.split(".")[1]) or {}
        quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in values.items()}
        return "\n".join(f'{name}="{value}"' for name, value in sorted(quoted.items()))
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": node_ip,
        "status.hostIPs": node_ip
    }
    if path not in known:
        raise Missing(f"unsupported fieldPath: {path}")
    return known[path]


def resource(pod, container, reference, allocatable):
    """By a resourceFieldRef: rounded up to whole divisors. Without a limit, what the node has."""
    name = reference.get("containerName")
    if name:
        everybody = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
        container = next((other for other in everybody if other["name"] == name), None)
        if container is None:
            raise Missing(f"container {name} not found")
    kind, _, what = reference["resource"].partition(".")
    resources = container.get("resources") or {}
    value = (resources.get(kind) or {}).get(what)
    if value is None and kind == "requests":
        value = (resources.get("limits") or {}).get(what, 0)
    if value is None:
        value = allocatable.get(what, 0)
    divisor = fit.quantity(reference.get("divisor") or "1") or decimal.Decimal(1)
    return str(int((fit.quantity(value) / divisor).to_integral_value(decimal.ROUND_CEILING)))


class Environment:
    """Makes environments; `objects`: finds config maps and secrets."""

    def __init__(self, pod, objects, pod_ip, node_ip, allocatable):
        self._pod, self._objects = pod, objects
        self._pod_ip, self._node_ip, self._allocatable = pod_ip, node_ip, allocatable

    def of(self, container, image_env):
        values = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **image_env}
        values["HOSTNAME"] = self._pod["spec"].get("hostname") or self._pod["metadata"]["name"]
        values.setdefault("HOME", "/root")
        for source in container.get("envFrom") or ():
            for kind in ("configMap", "secret"):
                if kind + "Ref" in source:
                    found = self._objects.data(kind, source[kind + "Ref"]) or {}
                    values.update({
                        source.get("prefix", "") + name: value.decode()
                        for name, value in found.items()
                    })
        for entry in container.get("env") or ():
            value = self._value(container, entry, values)
            if value is not None:
                values[entry["name"]] = value
        return values

    def _value(self, container, entry, values):
        source = entry.get("valueFrom")
        if not source:
            return expanded(entry.get("value", ""), values)
        if "fieldRef" in source:
            return self.field(source["fieldRef"]["fieldPath"])
        if "resourceFieldRef" in source:
            return resource(self._pod, container, source["resourceFieldRef"], self._allocatable)
        for kind in ("configMap", "secret"):
            if kind + "KeyRef" in source:
                return self._key(kind, source[kind + "KeyRef"])
        raise Missing(f"env {entry['name']}: valueFrom {', '.join(source)}: this double has not that")

    def _key(self, kind, reference):
        found = self._objects.data(kind, reference)
        if found is not None and reference["key"] in found:
            return found[reference["key"]].decode()
        if reference.get("optional"):
            return None
        raise Missing(f"couldn't find key {reference['key']} in {kind} {reference['name']}")

    def field(self, path):
        return field(self._pod, path, self._pod_ip, self._node_ip)

    def resource(self, reference):
        return resource(self._pod, self._pod["spec"]["containers"][0], reference, self._allocatable)
