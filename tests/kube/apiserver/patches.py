"""Patches: JSON (RFC 6902), merge (RFC 7386), and strategic merge, as far as its keys are known."""

import copy

from .errors import bad_request, ApiError

# What tells the items of a list apart, by the list's name, in types that are built in.
MERGE_KEYS = {
    "containers": ("name", ),
    "initContainers": ("name", ),
    "ephemeralContainers": ("name", ),
    "volumes": ("name", ),
    "env": ("name", ),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath", ),
    "ownerReferences": ("uid", ),
    "conditions": ("type", ),
    "imagePullSecrets": ("name", ),
    "hostAliases": ("ip", ),
    "addresses": ("type", ),
    "taints": ("key", "effect"),
}
SETS = ("finalizers", )


def merge(target, patch):
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def strategic(target, patch, name=""):
    if isinstance(patch, list) and isinstance(target, list):
        return _strategic_list(target, patch, name)
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    for key, value in patch.items():
        if key == "$patch" or key.startswith("$setElementOrder/"):
            continue
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.split("/", 1)[1]
            result[field] = [item for item in result.get(field) or [] if item not in value]
        elif key == "$retainKeys":
            result = {field: kept for field, kept in result.items() if field in value}
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = strategic(result.get(key), value, key)
    return result


def _strategic_list(target, patch, name):
    if name in SETS:
        return target + [item for item in patch if item not in target]
    keys = MERGE_KEYS.get(name)
    if keys is None or not all(isinstance(item, dict) for item in target + patch):
        return copy.deepcopy(patch)
    identity = lambda item: tuple(item.get(key) for key in keys[:1])
    result = list(target)
    for item in patch:
        places = [index for index, old in enumerate(result) if identity(old) == identity(item)]
        if item.get("$patch") == "delete":
            result = [old for old in result if identity(old) != identity(item)]
        elif places:
            result[places[0]] = strategic(result[places[0]], item)
        else:
            result.append(strategic({}, item) if isinstance(item, dict) else item)
    return result


def _unprocessable(text):
    return ApiError(422, "Invalid", f"the server rejected our request due to an error in our request: {text}")


def json_patch(target, operations):
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list")
    result = copy.deepcopy(target)
    for operation in operations:
        try:
            _apply_one(result, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise _unprocessable(f"{operation}: {error!r}") from error
    return result


def _apply_one(document, operation):
    parent, last = _parent_of(document, operation["path"])
    what = operation["op"]
    if what == "test":
        if _child(parent, last) != operation["value"]:
            raise ValueError("the test failed")
    elif what in ("add", "replace"):
        if what == "replace":
            _child(parent, last)
        _set(parent, last, copy.deepcopy(operation["value"]), insert=what == "add")
    elif what == "remove":
        _child(parent, last)
        del parent[int(last) if isinstance(parent, list) else last]
    elif what in ("copy", "move"):
        source, name = _parent_of(document, operation["from"])
        value = copy.deepcopy(_child(source, name))
        if what == "move":
            del source[int(name) if isinstance(source, list) else name]
        parent, last = _parent_of(document, operation["path"])
        _set(parent, last, value, insert=True)
    else:
        raise ValueError(f"unknown operation {what}")


def _parent_of(document, pointer):
    names = [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]
    if not names:
        raise ValueError("the whole document can't be patched")
    for name in names[:-1]:
        document = _child(document, name)
    return document, names[-1]


def _child(parent, name):
    return parent[int(name)] if isinstance(parent, list) else parent[name]


def _set(parent, name, value, insert):
    if not isinstance(parent, list):
        parent[name] = value
    elif name == "-":
        parent.append(value)
    elif insert:
        if int(name) > len(parent):
            raise IndexError(name)
        parent.insert(int(name), value)
    else:
        parent[int(name)] = value
