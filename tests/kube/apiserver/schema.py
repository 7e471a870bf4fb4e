"""Structural schemas of CRDs: what is pruned, what is filled in, and what is refused. CEL rules
(x-kubernetes-validations) are not judged here.
"""

import re

KNOWN_AT_ROOT = ("apiVersion", "kind", "metadata")


def child_schema(schema, name):
    """That of a field. None: the field is not known."""
    properties = schema.get("properties") or {}
    if name in properties:
        return properties[name]
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return additional
    return {} if additional is True else None


def keeps_unknown(schema):
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def prune(value, schema, path=""):
    """Takes unknown fields away; returns their paths."""
    gone = []
    if isinstance(value, list):
        for index, item in enumerate(value):
            gone += prune(item, schema.get("items") or {}, f"{path}[{index}]")
    if not isinstance(value, dict):
        return gone
    embedded = not path or schema.get("x-kubernetes-embedded-resource")
    for name in list(value):
        if embedded and name in KNOWN_AT_ROOT:
            continue
        child = child_schema(schema, name)
        where = f"{path}.{name}" if path else name
        if child is not None:
            gone += prune(value[name], child, where)
        elif not keeps_unknown(schema):
            gone.append(where)
            del value[name]
    return gone


def fill_in(value, schema):
    """Sets the fields that are missing and have a default."""
    if isinstance(value, list):
        for item in value:
            fill_in(item, schema.get("items") or {})
    if not isinstance(value, dict):
        return
    for name, child in (schema.get("properties") or {}).items():
        if "default" in child and value.get(name) is None and not (name in value and child.get("nullable")):
            value[name] = child["default"]
    for name, item in value.items():
        child = child_schema(schema, name)
        if child:
            fill_in(item, child)


TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float)
}


def has_type(value, schema):
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, (int, str)) and not isinstance(value, bool)
    wanted = schema.get("type")
    if wanted is None:
        return True
    if wanted in ("integer", "number") and isinstance(value, bool):
        return False
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, TYPES[wanted])


def validate(value, schema, path=""):
    """What is wrong, as (field, text) each."""
    if value is None and schema.get("nullable"):
        return []
    if not has_type(value, schema):
        return [(path
                 or "<nil>", f"Invalid value: must be of type {schema.get('type', 'integer or string')}")]
    problems = list(_own_problems(value, schema, path))
    if isinstance(value, dict):
        for name, item in value.items():
            child = child_schema(schema, name)
            if child and not (not path and name in KNOWN_AT_ROOT):
                problems += validate(item, child, f"{path}.{name}" if path else name)
    if isinstance(value, list):
        for index, item in enumerate(value):
            problems += validate(item, schema.get("items") or {}, f"{path}[{index}]")
    return problems


def _own_problems(value, schema, path):
    if "enum" in schema and value not in schema["enum"]:
        yield path, f"Unsupported value: {value!r}: supported values: {schema['enum']}"
    if isinstance(value, dict):
        for name in schema.get("required") or ():
            if name not in value:
                yield (f"{path}.{name}" if path else name), "Required value"
        yield from _bounds(len(value), schema, path, "minProperties", "maxProperties")
    if isinstance(value, list):
        yield from _bounds(len(value), schema, path, "minItems", "maxItems")
    if isinstance(value, str):
        yield from _bounds(len(value), schema, path, "minLength", "maxLength")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield path, f"Invalid value: {value!r}: should match '{schema['pattern']}'"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _bounds(value, schema, path, "minimum", "maximum")
    yield from _combinations(value, schema, path)


def _bounds(number, schema, path, least, most):
    if least in schema and number < schema[least]:
        yield path, f"Invalid value: {number}: {least} is {schema[least]}"
    if most in schema and number > schema[most]:
        yield path, f"Invalid value: {number}: {most} is {schema[most]}"


def _combinations(value, schema, path):
    fits = [not validate(value, option, path or "x") for option in schema.get("anyOf") or ()]
    if fits and not any(fits):
        yield path, "Invalid value: it fits none of anyOf"
    fits = [not validate(value, option, path or "x") for option in schema.get("oneOf") or ()]
    if fits and sum(fits) != 1:
        yield path, "Invalid value: it is to fit one of oneOf"
    for option in schema.get("allOf") or ():
        yield from validate(value, option, path)
    if "not" in schema and not validate(value, schema["not"], path or "x"):
        yield path, "Invalid value: it fits what it must not"
