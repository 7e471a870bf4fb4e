"""Who owns which field: metadata.managedFields, and server-side apply.

A field is a path: a tuple of "f:NAME" for a field of a map, 'k:{"name":"x"}' for an item of a list of maps, and
"v:VALUE" for one of a set. A manager's fields are a set of paths; of items it is the item itself and what is in it.
"""

import copy
import json

from . import patches
from .errors import ApiError, bad_request, details_of
from .schema import child_schema

# Nobody owns what says which object it is, and what the server itself writes.
UNOWNED = {("f:apiVersion", ), ("f:kind", )
           } | {("f:metadata", f"f:{name}")
                for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation",
                             "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")}


def compact(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


class Lists:
    """How the items of lists are told apart, in a type. Types that are built in have an empty schema here."""

    def __init__(self, kind):
        self.root = kind.schema or {}
        self._is_custom = kind.is_custom

    @staticmethod
    def child(schema, name):
        return child_schema(schema, name) or {}

    @staticmethod
    def items(schema):
        return schema.get("items") or {}

    def keys_of(self, value, schema, path):
        """Names of the keys of a list of maps; () for a set; None for what is one value."""
        if not isinstance(value, list):
            return None
        if self._is_custom and path[0] != "f:metadata":
            kind_of_list = schema.get("x-kubernetes-list-type")
            keys = {"map": tuple(schema.get("x-kubernetes-list-map-keys") or ()), "set": ()}.get(kind_of_list)
        else:
            name = path[-1][2:]
            keys = () if name in patches.SETS else patches.MERGE_KEYS.get(name)
        return None if keys and not all(isinstance(item, dict) for item in value) else keys


def step_of(item, keys):
    if not keys:
        return "v:" + compact(item)
    return "k:" + compact({key: item[key] for key in keys if key in item})


def fields_of(obj, lists):
    """All fields that are set in it, with their values: {path: value}; of items, None."""
    found = {}

    def walk_map(value, schema, path):
        for key, item in value.items():
            walk(item, lists.child(schema, key), path + ("f:" + key, ))

    def walk(value, schema, path):
        keys = lists.keys_of(value, schema, path)
        if path in UNOWNED:
            return
        if isinstance(value, dict) and value:
            walk_map(value, schema, path)
        elif keys is None:
            found[path] = value
        else:
            for item in value:
                place = path + (step_of(item, keys), )
                found[place] = None
                if keys:
                    walk_map(item, lists.items(schema), place)

    walk_map(obj, lists.root, ())
    return found


def remove_fields(obj, paths, lists):
    """Takes these fields away, and the maps that are empty then."""

    def walk(value, schema, path):
        keys = lists.keys_of(value, schema, path) if path else None
        if isinstance(value, dict):
            for key in list(value):
                place = path + ("f:" + key, )
                had = bool(value[key])
                if place not in paths:
                    walk(value[key], lists.child(schema, key), place)
                if place in paths or (had and value[key] == {}):
                    del value[key]
        elif keys is not None:
            value[:] = [item for item in value if path + (step_of(item, keys), ) not in paths]
            for item in value:
                walk(item, lists.items(schema), path + (step_of(item, keys), ))

    walk(obj, lists.root, ())


def merge_applied(live, config, lists):
    """The live object with what the configuration sets."""

    def walk(old, new, schema, path):
        if isinstance(new, dict) and isinstance(old, dict):
            result = dict(old)
            for key, item in new.items():
                result[key] = walk(old.get(key), item, lists.child(schema, key), path + ("f:" + key, ))
            return result
        keys = lists.keys_of(new, schema, path)
        if keys is None or not isinstance(old, list):
            return copy.deepcopy(new)
        result = list(old)
        steps = [step_of(item, keys) for item in result]
        for item in new:
            step = step_of(item, keys)
            if step in steps:
                place = steps.index(step)
                result[place] = walk(result[place], item, lists.items(schema), path + (step, ))
            else:
                result.append(copy.deepcopy(item))
        return result

    return walk(live, config, lists.root, ())


def to_tree(paths):
    """As fieldsV1."""
    tree = {}
    for path in sorted(paths):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        if path[-1][:2] in ("k:", "v:"):
            node["."] = {}
    return tree


def from_tree(tree, path=()):
    paths = set()
    for step, child in tree.items():
        if step == ".":
            paths.add(path)
        elif child == {} and not step.startswith("k:"):
            paths.add(path + (step, ))
        else:
            paths |= from_tree(child, path + (step, ))
    return paths


class Owners:
    """The entries of managedFields."""

    def __init__(self, obj):
        self._entries = {}
        for entry in (obj.get("metadata") or {}).get("managedFields") or ():
            key = (entry["manager"], entry["operation"], entry.get("subresource", ""))
            self._entries[key] = (from_tree(entry.get("fieldsV1")
                                            or {}), entry.get("time"), entry["apiVersion"])

    def paths(self, key):
        return self._entries.get(key, (set(), ))[0]

    def others(self, key):
        return [(other, entry[0]) for other, entry in self._entries.items() if other != key]

    def set(self, key, paths, time, api_version):
        if paths:
            self._entries[key] = (paths, time, api_version)
        else:
            self._entries.pop(key, None)

    def take_from_others(self, key, paths):
        for other, (owned, time, api_version) in list(self._entries.items()):
            if other != key:
                self.set(other, owned - paths, time, api_version)

    def write_to(self, obj):
        entries = []
        for (manager, operation, subresource), (paths, time, api_version) in sorted(self._entries.items()):
            entry = {
                "manager": manager,
                "operation": operation,
                "apiVersion": api_version,
                "time": time,
                "fieldsType": "FieldsV1",
                "fieldsV1": to_tree(paths)
            }
            if subresource:
                entry["subresource"] = subresource
            entries.append(entry)
        if entries:
            obj["metadata"]["managedFields"] = entries
        else:
            obj["metadata"].pop("managedFields", None)


def note_update(kind, old, new, manager, subresource, time):
    """Writes down in `new` that the manager has made it of `old` ({}: of nothing)."""
    lists = Lists(kind)
    before, after = fields_of(old, lists), fields_of(new, lists)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    gone = set(before) - set(after)
    owners = Owners(old)
    key = (manager, "Update", subresource)
    owners.take_from_others(key, changed | gone)
    if changed or gone:
        owners.set(key, (owners.paths(key) - gone) | changed, time, kind.api_version)
    owners.write_to(new)


def apply(kind, live, config, manager, force, subresource, time):
    """The object after server-side apply; `live` is {} if there is none."""
    lists = Lists(kind)
    wanted = fields_of(config, lists)
    present = fields_of(live, lists)
    owners = Owners(live)
    key = (manager, "Apply", subresource)
    conflicts = []
    for (other, operation, _), owned in owners.others(key):
        for path in sorted(owned & set(wanted)):
            if path in present and present[path] != wanted[path]:
                conflicts.append((other, operation, path))
    if conflicts and not force:
        raise conflict_error(kind, config, conflicts)
    result = merge_applied(live, config, lists)
    kept_by_others = set().union(*[owned for _, owned in owners.others(key)]) if owners.others(key) else set()
    remove_fields(result, owners.paths(key) - set(wanted) - kept_by_others, lists)
    owners.take_from_others(key, {path for _, _, path in conflicts})
    owners.set(key, set(wanted), time, kind.api_version)
    result.setdefault("metadata", {})
    owners.write_to(result)
    return result


def conflict_error(kind, config, conflicts):

    def text(path):
        return "".join("." + step[2:] if step.startswith("f:") else f"[{step[2:]}]" for step in path)

    causes = [{
        "reason":
        "FieldManagerConflict",
        "field":
        text(path),
        "message":
        f'conflict with "{manager}"{" using " + kind.api_version if operation == "Update" else ""}'
    } for manager, operation, path in conflicts]
    plural = "conflict" if len(causes) == 1 else "conflicts"
    message = f"Apply failed with {len(causes)} {plural}: " + "; ".join(
        f"{cause['message']}: {cause['field']}" for cause in causes)
    name = (config.get("metadata") or {}).get("name", "")
    return ApiError(409, "Conflict", message, details_of(kind, name, causes=causes))


def parse_config(kind, config, key):
    if not isinstance(config, dict):
        raise bad_request("the body is no object")
    metadata = config.get("metadata") or {}
    if config.get("apiVersion") != kind.api_version or config.get("kind") != kind.kind:
        raise bad_request(f"the body is no {kind.kind} of {kind.api_version}")
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    if metadata.get("name", key[1]) != key[1] or metadata.get("namespace", key[0]) != key[0]:
        raise bad_request("the body names another object than the address")
    return config
