"""Who somebody is: tokens of service accounts (TokenRequest, TokenReview), and of people from a file."""

import base64
import dataclasses
import hashlib
import hmac
import json
import secrets
import time

from .errors import ApiError, bad_request, invalid
from .rules import now, stamp

# Of tokens that are for the API server itself.
OWN_AUDIENCE = "https://kubernetes.default.svc.cluster.local"
LEAST_SECONDS = 600


@dataclasses.dataclass(frozen=True)
class User:
    name: str
    groups: tuple = ()
    uid: str = ""
    extra: dict = dataclasses.field(default_factory=dict)

    __hash__ = None

    def as_json(self):
        info = {"username": self.name, "groups": list(self.groups)}
        if self.uid:
            info["uid"] = self.uid
        if self.extra:
            info["extra"] = self.extra
        return info


def _encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Tokens:
    """Makes and knows tokens."""

    def __init__(self, store, registry, people=None):
        """`people`: {token: User} that are not of the cluster."""
        self._store, self._registry, self._people = store, registry, people or {}
        self._key = secrets.token_bytes(32)

    def _find(self, plural, namespace, name):
        return self._store.get(self._registry.find("", "v1", plural), (namespace, name))

    def _signature(self, text):
        return _encode(hmac.new(self._key, text.encode(), hashlib.sha256).digest())

    def request(self, kind, account, body):
        """The answer to a TokenRequest for a service account."""
        spec = body.get("spec") or {}
        audiences = spec.get("audiences") or [OWN_AUDIENCE]
        seconds = spec.get("expirationSeconds", 3600)
        if seconds < LEAST_SECONDS:
            raise invalid(
                kind, "",
                [("spec.expirationSeconds", f"Invalid value: {seconds}: may not specify a duration less "
                  "than 10 minutes")])
        metadata = account["metadata"]
        claims = {
            "aud": audiences,
            "exp": int(time.time()) + seconds,
            "jti": secrets.token_hex(8),
            "namespace": metadata["namespace"],
            "account": metadata["name"],
            "uid": metadata["uid"]
        }
        bound = spec.get("boundObjectRef")
        if bound:
            claims["pod"] = self._bound_pod(metadata, bound)
        text = ".".join(_encode(json.dumps(part).encode()) for part in ({"alg": "HS256"}, claims))
        status = {"token": f"{text}.{self._signature(text)}", "expirationTimestamp": stamp(claims["exp"])}
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "creationTimestamp": now()
            },
            "spec": {
                **spec, "audiences": audiences,
                "expirationSeconds": seconds
            },
            "status": status
        }

    def _bound_pod(self, account, bound):
        if bound.get("kind") != "Pod":
            raise bad_request("this double binds tokens to pods only")
        pod = self._find("pods", account["namespace"], bound.get("name", ""))
        if pod is None:
            raise ApiError(404, "NotFound", f"pods \"{bound.get('name')}\" not found")
        uid = pod["metadata"]["uid"]
        if bound.get("uid", uid) != uid:
            raise ApiError(
                409, "Conflict", f"the UID in the bound object reference ({bound['uid']}) does not match the "
                f"UID in record ({uid})")
        return {"name": bound["name"], "uid": uid}

    def user_of(self, token, audiences=(OWN_AUDIENCE, )):
        """Who has it, and for which of the audiences it is. ValueError: nobody, and why."""
        if token in self._people:
            return self._people[token], list(audiences)
        text, _, signature = token.rpartition(".")
        if not text or not hmac.compare_digest(signature, self._signature(text)):
            raise ValueError("invalid bearer token")
        claims = json.loads(_decode(text.split(".")[1]))
        fitting = [audience for audience in audiences if audience in claims["aud"]]
        if not fitting:
            raise ValueError(
                f"token audiences {claims['aud']} is invalid for the target audiences {list(audiences)}")
        if time.time() >= claims["exp"]:
            raise ValueError("service account token has expired")
        account = self._find("serviceaccounts", claims["namespace"], claims["account"])
        if account is None or account["metadata"]["uid"] != claims["uid"]:
            raise ValueError("service account token has been invalidated")
        return self._account_user(claims), fitting

    def _account_user(self, claims):
        extra = {}
        if "pod" in claims:
            pod = self._find("pods", claims["namespace"], claims["pod"]["name"])
            if pod is None or pod["metadata"]["uid"] != claims["pod"]["uid"]:
                raise ValueError("service account token has been invalidated: its pod is gone")
            extra = {
                "authentication.kubernetes.io/pod-name": [claims["pod"]["name"]],
                "authentication.kubernetes.io/pod-uid": [claims["pod"]["uid"]]
            }
        namespace = claims["namespace"]
        return User(f"system:serviceaccount:{namespace}:{claims['account']}",
                    ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"),
                    claims["uid"], extra)

    def review(self, body):
        """The answer to a TokenReview."""
        spec = body.get("spec") or {}
        if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        try:
            user, audiences = self.user_of(spec["token"], spec.get("audiences") or [OWN_AUDIENCE])
            status = {"authenticated": True, "user": user.as_json(), "audiences": audiences}
        except ValueError as error:
            status = {"authenticated": False, "user": {}, "error": str(error)}
        return {
            "kind": "TokenReview",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {},
            "spec": spec,
            "status": status
        }


def read_people(path):
    """As the API server's --token-auth-file: token,user,uid,"group1,group2" a line."""
    import csv
    with open(path, encoding="utf-8", newline="") as file:
        return {
            row[0]: User(row[1], (*(row[3].split(",") if len(row) > 3 else ()), "system:authenticated"),
                         row[2])
            for row in csv.reader(file) if row
        }
