"""What the kubelet says of a pod. Plain functions."""

import datetime


def stamp(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind, holds, now, reason="", message=""):
    entry = {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": stamp(now)}
    # Nulls take away what an older condition of the type said.
    return {**entry, "reason": reason or None, "message": message or None}


def waiting(reason, message=""):
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def running(now):
    return {"running": {"startedAt": stamp(now)}}


def terminated(code, began, ended, reason="", message=""):
    state = {
        "exitCode": code,
        "reason": reason or ("Error" if code else "Completed"),
        "startedAt": stamp(began),
        "finishedAt": stamp(ended)
    }
    if message:
        state["message"] = message
    return {"terminated": state}


def container_status(container, state, container_id=""):
    is_running = "running" in state
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": container.get("image", "") if "waiting" not in state else "",
        "containerID": container_id if "waiting" not in state else "",
        "ready": is_running,
        "started": is_running,
        "restartCount": 0,
        "state": state,
        "lastState": {}
    }


def init_status(container, state, container_id=""):
    """Of an init container: ready when it has done its work, or, if it goes on beside the others, when it runs."""
    said = container_status(container, state, container_id)
    if container.get("restartPolicy") != "Always":
        said["ready"] = state.get("terminated", {}).get("exitCode") == 0
    return said


def phase_of(states, is_initialized):
    """`states`: of the containers that matter for the end."""
    if not is_initialized or any("waiting" in state for state in states):
        return "Pending"
    if any("running" in state for state in states):
        return "Running"
    failed = any(state["terminated"]["exitCode"] for state in states)
    return "Failed" if failed else "Succeeded"
