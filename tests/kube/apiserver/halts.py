"""A client that dies in the midst of its work, at a change that a test has chosen:

    POST   /-/halt  {"agent": "x/", "resources": ["pods"], "after": 3, "done": true}
                                 of the changes to these by clients whose User-Agent begins so, the three next ones are
                                 answered; the fourth is not, but is done, or is not even that; none after it is done or
                                 answered
    GET    /-/halt               {"changes": 4, "at": "patch pods"}: how many changes there were, and which is not answered
                                 ("": none yet)
    DELETE /-/halt               cuts the connections of all that are not answered, and lets the client be
"""

import threading

from .cut import Cut

CHANGES = ("create", "update", "patch", "delete", "deletecollection")


class Halts:
    """Thread-safe."""

    def __init__(self):
        self._changed = threading.Condition()
        self._order = None
        self._changes = 0
        self._at = ""

    def control(self, method, body):
        with self._changed:
            if method == "GET":
                return {"changes": self._changes, "at": self._at}
            self._order = dict(body) if method == "POST" else None
            self._changes, self._at = 0, ""
            self._changed.notify_all()
        return {}

    def meet(self, agent, verb, resource):
        """Before a call is done. The order by which it is done, and then not answered; None: it is as any other."""
        with self._changed:
            order = self._order
            if (not order or not agent.startswith(order["agent"]) or verb not in CHANGES
                    or resource not in order["resources"]):
                return None
            is_first = not self._at
            self._changes += is_first
            if self._changes <= order["after"]:
                return None
            self._at = self._at or f"{verb} {resource}"
        if not is_first or not order["done"]:
            self.hold(order)
        return order

    def hold(self, order):
        """Until the client is let be; then its connection is cut."""
        with self._changed:
            self._changed.wait_for(lambda: self._order is not order)
        raise Cut
