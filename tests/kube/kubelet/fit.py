"""Whether a pod may be on a node, and what it takes there. Plain functions."""

import decimal
import re

SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
QUANTITY = re.compile(r"^([0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)$")


def quantity(value):
    match = QUANTITY.match(str(value))
    if not match or match[2] not in SUFFIXES and match[2] not in BINARY:
        raise ValueError(f"no quantity: {value!r}")
    number = decimal.Decimal(match[1])
    return number * 2**BINARY[match[2]] if match[2] in BINARY else number.scaleb(SUFFIXES[match[2]])


def requests(pod):
    """By resource: what the containers need together, and no less than each init container before them needs."""
    spec = pod["spec"]
    total, sidecars, peak = {}, {}, {}
    for container in spec.get("initContainers") or ():
        wanted = _of_container(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum(sidecars, wanted)
            wanted = {}
        peak = _largest(peak, _sum(sidecars, wanted))
    for container in spec["containers"]:
        total = _sum(total, _of_container(container))
    total = _largest(_sum(total, sidecars), peak)
    overhead = {name: quantity(value) for name, value in (spec.get("overhead") or {}).items()}
    return _sum(_sum(total, overhead), {"pods": decimal.Decimal(1)})


def _of_container(container):
    resources = container.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantity(value) for name, value in wanted.items()}


def _sum(left, right):
    return {name: left.get(name, 0) + right.get(name, 0) for name in {*left, *right}}


def _largest(left, right):
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {*left, *right}}


def tolerates(pod, taint):
    return any(_matches(toleration, taint) for toleration in pod["spec"].get("tolerations") or ())


def _matches(toleration, taint):
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def _holds(expression, values):
    value, wanted = values.get(expression["key"]), expression.get("values") or []
    operator = expression["operator"]
    if operator == "In":
        return value in wanted
    if operator == "NotIn":
        return value not in wanted
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    try:
        return int(value) > int(wanted[0]) if operator == "Gt" else int(value) < int(wanted[0])
    except (TypeError, ValueError):
        return False


def is_selected(pod, node):
    """By nodeSelector and required node affinity."""
    labels, spec = node["metadata"].get("labels") or {}, pod["spec"]
    if any(labels.get(name) != value for name, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}

    def term_holds(term):
        parts = [(part, labels) for part in term.get("matchExpressions") or ()]
        parts += [(part, fields) for part in term.get("matchFields") or ()]
        return bool(parts) and all(_holds(part, values) for part, values in parts)

    return any(term_holds(term) for term in required.get("nodeSelectorTerms") or ())


def why_not(pod, node, wanted, taken):
    """What keeps the pod from the node, in the scheduler's words; "": nothing."""
    if node["spec"].get("unschedulable"):
        return "node(s) were unschedulable"
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] != "PreferNoSchedule" and not tolerates(pod, taint):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    if not is_selected(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    allocatable = node["status"].get("allocatable") or {}
    for name, amount in sorted(wanted.items()):
        if amount and taken.get(name, 0) + amount > quantity(allocatable.get(name, 0)):
            return "Too many pods" if name == "pods" else f"Insufficient {name}"
    return ""


def stays_seconds(pod, taint, usual):
    """How long a pod stays on a node that has this NoExecute taint; None: for good. `usual`: if it does not say."""
    fitting = [one for one in pod["spec"].get("tolerations") or () if _matches(one, taint)]
    if not fitting:
        return usual
    limits = [one["tolerationSeconds"] for one in fitting if one.get("tolerationSeconds") is not None]
    return min(limits) if limits else None
