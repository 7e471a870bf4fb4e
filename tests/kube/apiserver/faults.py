"""What tests do to the server, and ask of it, at addresses that no Kubernetes has:

    POST /-/compact          forgets what has happened: watches and lists in pages that go on from before are answered 410
    POST /-/cut              cuts all watches
    POST /-/faults  [...]    what goes wrong with the next calls, instead of what went wrong before; each fault is
                             {"verb": "create", "resource": "pods", "times": 3, and what is done:
                              "status": 429, "retryAfter": 1   nothing, and it is answered so; or
                              "cut": "before" | "after"        the connection is cut, before or after it was done}
    GET  /-/calls            how many calls there were, by "verb resource"
    GET  /-/agents           the same, by client: its User-Agent
    GET  /-/rights           what each user was allowed and refused: rights.py
    /-/halt                  halts.py
"""

import collections
import threading

from .cut import Cut
from .errors import ApiError
from .halts import Halts
from .rights import Rights

PREFIX = "/-/"
REASONS = {429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}


class Throttled(ApiError):

    def __init__(self, code, retry_after):
        super().__init__(code, REASONS.get(code, "Unknown"), "a fault that a test has asked for")
        self.retry_after = retry_after


class Faults:
    """Thread-safe."""

    def __init__(self, store):
        self._store = store
        self._lock = threading.Lock()
        self._faults = []
        self._calls = collections.defaultdict(collections.Counter)
        self.halts = Halts()
        self.rights = Rights()
        # Grows when watches are to be cut.
        self.cuts = 0

    def control(self, method, what, body):
        if method == "POST" and what == "compact":
            self._store.compact()
        elif method == "POST" and what == "cut":
            self.cuts += 1
            self._store.wake()
        elif method == "POST" and what == "faults":
            with self._lock:
                self._faults = [dict(fault) for fault in body]
        elif method == "GET" and what == "calls":
            with self._lock:
                return dict(sum(self._calls.values(), collections.Counter()))
        elif method == "GET" and what == "agents":
            with self._lock:
                return {agent: dict(calls) for agent, calls in self._calls.items()}
        elif method == "GET" and what == "rights":
            return self.rights.used()
        elif what == "halt":
            return self.halts.control(method, body)
        else:
            raise ApiError(404, "NotFound", f"there is no {method} {PREFIX}{what}")
        return {}

    def meet(self, agent, verb, resource):
        """Counts the call. Raises what goes wrong before it; returns whether it is cut after it is done."""
        with self._lock:
            self._calls[agent][f"{verb} {resource}"] += 1
            fault = next((fault for fault in self._faults if self._concerns(fault, verb, resource)), None)
            if fault is None:
                return False
            fault["times"] = fault.get("times", 1) - 1
        if "status" in fault:
            raise Throttled(fault["status"], fault.get("retryAfter"))
        if fault["cut"] == "before":
            raise Cut
        return True

    @staticmethod
    def _concerns(fault, verb, resource):
        return (fault.get("times", 1) > 0 and fault.get("verb", verb) == verb
                and fault.get("resource", resource) == resource)
