"""Which pods keep others off their node, and which yield. Plain functions; pods as the server has them."""

HOST_NAME = "kubernetes.io/hostname"


def anti_affinity(pod):
    """The terms of the required part."""
    affinity = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()


def lacking(pod):
    """What of it this double can't do; "": nothing."""
    affinity = pod["spec"].get("affinity") or {}
    if affinity.get("podAffinity"):
        return "spec.affinity.podAffinity"
    for term in anti_affinity(pod):
        if term.get("topologyKey") != HOST_NAME:
            return f"anti-affinity by {term.get('topologyKey')}: only {HOST_NAME}"
        if (term.get("labelSelector") or {}).get("matchExpressions"):
            return "anti-affinity by matchExpressions"
        if term.get("namespaceSelector"):
            return "anti-affinity by labels of namespaces"
    return ""


def _repels(pod, other):
    for term in anti_affinity(pod):
        # An empty selector is all namespaces; none at all, and no list, is the pod's own.
        everywhere = "namespaceSelector" in term
        spaces = term.get("namespaces") or [pod["metadata"]["namespace"]]
        if not everywhere and other["metadata"]["namespace"] not in spaces:
            continue
        wanted = (term.get("labelSelector") or {}).get("matchLabels") or {}
        labels = other["metadata"].get("labels") or {}
        if all(labels.get(name) == value for name, value in wanted.items()):
            return True
    return False


def why_not(pod, others):
    """What keeps the pod off a node with those others, in the scheduler's words; "": nothing."""
    if any(_repels(pod, other) for other in others):
        return "node(s) didn't match pod anti-affinity rules"
    if any(_repels(other, pod) for other in others):
        return "node(s) didn't satisfy existing pods anti-affinity rules"
    return ""


def priority(pod):
    return pod["spec"].get("priority", 0)


def may_preempt(pod):
    return pod["spec"].get("preemptionPolicy") != "Never"


def is_leaving(pod):
    return bool(pod["metadata"].get("deletionTimestamp"))


def victims(pod, others, fits):
    """Those that have to go, the fewest and least important; None: it does not help. `fits(rest)`: whether the pod has
    room beside the rest."""
    lower = sorted((other for other in others if priority(other) < priority(pod)), key=priority, reverse=True)
    staying = [other for other in others if priority(other) >= priority(pod)]
    if not lower or not fits(staying):
        return None
    gone = []
    for other in lower:
        if fits([*staying, other]):
            staying.append(other)
        else:
            gone.append(other)
    return gone
