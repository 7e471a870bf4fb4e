"""Watches: what happens to a collection, as lines of JSON."""

import json
import time

from .errors import ApiError

# How long to wait for something to happen before it is looked at whether the watch is over.
WAIT_SECONDS = 1


class Watch:

    def __init__(self, store, kind, namespace, selector, bookmarks, seconds, bookmark_period):
        self._store, self._kind, self._namespace, self._selector = store, kind, namespace, selector
        self._bookmarks, self._seconds, self._bookmark_period = bookmarks, seconds, bookmark_period

    def lines(self, version):
        """From this resourceVersion on ("" and "0": what is there first), until its time is over or something is wrong."""
        if version in ("", "0"):
            objects, revision = self._store.list(self._kind, self._namespace)
            for obj in objects:
                if self._selector.matches(obj):
                    yield self._line("ADDED", obj)
        else:
            revision = int(version)
        end = time.monotonic() + self._seconds
        bookmark_at = time.monotonic() + self._bookmark_period
        while time.monotonic() < end:
            try:
                events, revision = self._store.events_after(self._kind, revision,
                                                            min(WAIT_SECONDS, self._seconds))
            except ApiError as error:
                yield self._line("ERROR", error.status())
                return
            for event in events:
                what = self._what(event)
                if what:
                    yield event.line(what)
            if self._bookmarks and time.monotonic() >= bookmark_at:
                bookmark_at += self._bookmark_period
                yield self._bookmark(revision)
            elif not events:
                yield b""  # so that a client that is gone is noticed
        if self._bookmarks:
            yield self._bookmark(revision)

    def _what(self, event):
        """What the event is to whoever sees only the selected objects. None: nothing."""
        if self._namespace and event.object["metadata"].get("namespace") != self._namespace:
            return None
        was = event.before is not None and self._selector.matches(event.before)
        is_now = event.type != "DELETED" and self._selector.matches(event.object)
        if was and is_now:
            return "MODIFIED"
        return "ADDED" if is_now else "DELETED" if was else None

    def _bookmark(self, revision):
        return self._line(
            "BOOKMARK", {
                "kind": self._kind.kind,
                "apiVersion": self._kind.api_version,
                "metadata": {
                    "resourceVersion": str(revision)
                }
            })

    @staticmethod
    def _line(what, obj):
        return json.dumps({"type": what, "object": obj}, separators=(",", ":")).encode() + b"\n"
