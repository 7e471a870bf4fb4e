"""Errors as the API server answers them."""


class ApiError(Exception):
    """An object of kind Status, to be answered with its code."""

    def __init__(self, code, reason, message, details=None):
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    def status(self):
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code
        }
        if self.details:
            status["details"] = self.details
        return status


def described(kind, name):
    """'pods "p"', as messages name objects."""
    resource = kind.plural + ("." + kind.group if kind.group else "")
    return f'{resource} "{name}"'


def details_of(kind, name, **more):
    return {"name": name, "group": kind.group, "kind": kind.plural, **more}


def not_found(kind, name):
    return ApiError(404, "NotFound", f"{described(kind, name)} not found", details_of(kind, name))


def already_exists(kind, name):
    return ApiError(409, "AlreadyExists", f"{described(kind, name)} already exists", details_of(kind, name))


def conflict(kind, name, why):
    return ApiError(409, "Conflict", f"Operation cannot be fulfilled on {described(kind, name)}: {why}",
                    details_of(kind, name))


def invalid(kind, name, problems):
    """`problems`: (field, text) each."""
    text = ", ".join(f"{field}: {what}" for field, what in problems)
    causes = [{"reason": "FieldValueInvalid", "message": what, "field": field} for field, what in problems]
    return ApiError(422, "Invalid", f"{kind.kind} \"{name}\" is invalid: {text}",
                    details_of(kind, name, causes=causes))


def bad_request(message):
    return ApiError(400, "BadRequest", message)


def expired(message):
    return ApiError(410, "Expired", message)
