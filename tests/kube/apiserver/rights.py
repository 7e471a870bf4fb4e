"""Which rights users have used, and which they lacked, so that a test can hold roles against them."""

import threading


class Rights:
    """Thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        # By user: {("allowed" or "refused", "verb group/resource")}.
        self._used = {}

    def note(self, user, request, allowed):
        what = f"{request.verb} {request.group}/{request.resource}"
        with self._lock:
            self._used.setdefault(user.name, set()).add(("allowed" if allowed else "refused", what))

    def used(self):
        """{user: {"allowed": ["patch adaptdl.petuum.com/adaptdljobs/status", ...], "refused": [...]}}"""
        with self._lock:
            return {
                user: {
                    answer: sorted(what for given, what in used if given == answer)
                    for answer in ("allowed", "refused")
                }
                for user, used in self._used.items()
            }
