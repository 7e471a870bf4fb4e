"""The priority of pods, by their classes."""

from .errors import ApiError

SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def admit(pod, classes):
    """Completes a new pod. `classes`: the PriorityClasses that there are."""
    spec = pod["spec"]
    known = {one["metadata"]["name"]: one for one in classes}
    name = spec.get("priorityClassName")
    if not name:
        usual = [one for one in classes if one.get("globalDefault")]
        chosen = usual[0] if usual else {}
        if chosen:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    elif name in SYSTEM:
        chosen = {"value": SYSTEM[name]}
    elif name in known:
        chosen = known[name]
    else:
        raise _forbidden(pod, f"no PriorityClass with name {name} was found")
    value = chosen.get("value", 0)
    if spec.setdefault("priority", value) != value:
        raise _forbidden(
            pod, f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name")
    spec.setdefault("preemptionPolicy", chosen.get("preemptionPolicy", "PreemptLowerPriority"))


def _forbidden(pod, why):
    return ApiError(403, "Forbidden", f'pods "{pod["metadata"].get("name", "")}" is forbidden: {why}')
