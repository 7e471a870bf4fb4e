"""Which objects of a collection are asked for."""

import re

from .errors import bad_request

REQUIREMENT = re.compile(r"^\s*(!?)\s*([^\s=!(),]+)\s*(?:(==|=|!=|\bin\b|\bnotin\b)\s*(.*?))?\s*$")


class Selector:

    def __init__(self, labels="", fields=""):
        self._labels = [self._parse(text) for text in self._split(labels)]
        self._fields = [self._parse(text) for text in self._split(fields)]

    @staticmethod
    def _split(text):
        return [part for part in re.split(r",(?![^(]*\))", text) if part.strip()]

    @staticmethod
    def _parse(text):
        match = REQUIREMENT.match(text)
        if not match:
            raise bad_request(f"unable to parse requirement: {text}")
        absent, name, operator, values = match.groups()
        if operator in ("in", "notin"):
            return name, operator, [value.strip() for value in values.strip("() ").split(",")]
        return name, "absent" if absent else operator or "present", [values]

    def matches(self, obj):
        labels = obj["metadata"].get("labels") or {}
        return (all(
            self._fits(labels.get(name), operator, values) for name, operator, values in self._labels)
                and all(
                    self._fits(self._field(obj, name), operator, values)
                    for name, operator, values in self._fields))

    @staticmethod
    def _field(obj, path):
        for name in path.split("."):
            obj = obj.get(name) if isinstance(obj, dict) else None
        return "" if obj is None else str(obj)

    @staticmethod
    def _fits(value, operator, values):
        if operator == "present":
            return value is not None
        if operator == "absent":
            return value is None
        if operator in ("=", "==", "in"):
            return value in values
        return value not in values
