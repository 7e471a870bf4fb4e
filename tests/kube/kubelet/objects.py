"""What pods take from other objects: config maps, secrets, tokens, claims."""

import base64

from .client import Refused
from .environment import Missing

PLURALS = {"configMap": "configmaps", "secret": "secrets"}


class Objects:
    """Of one pod's namespace."""

    def __init__(self, client, pod):
        self._client, self._metadata, self._spec = client, pod["metadata"], pod["spec"]
        self._core = f"/api/v1/namespaces/{pod['metadata']['namespace']}"

    def _get(self, path):
        try:
            return self._client.get(f"{self._core}/{path}")
        except Refused as error:
            raise Missing(str(error)) from error

    def data(self, kind, reference):
        """By key, bytes. None: there is none, which is fine."""
        name = reference.get("name") or reference.get("secretName", "")
        found = self._get(f"{PLURALS[kind]}/{name}")
        if found is None:
            if reference.get("optional"):
                return None
            raise Missing(f'{kind.lower()} "{name}" not found')
        plain = {key: value.encode() for key, value in (found.get("data") or {}).items()}
        if kind == "secret":
            plain = {key: base64.b64decode(value) for key, value in plain.items()}
            return plain
        binary = {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}
        return {**plain, **binary}

    def token(self, source):
        """Of the pod's service account, for the audience that `source` wants."""
        spec = {
            "expirationSeconds": source.get("expirationSeconds", 3600),
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": self._metadata["name"],
                "uid": self._metadata["uid"]
            }
        }
        if source.get("audience"):
            spec["audiences"] = [source["audience"]]
        account = self._spec.get("serviceAccountName", "default")
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            answer = self._client.call("POST", f"{self._core}/serviceaccounts/{account}/token", request)
        except Refused as error:
            raise Missing(f"failed to fetch token: {error}") from error
        return answer["status"]["token"]

    def claim(self, name):
        found = self._get(f"persistentvolumeclaims/{name}")
        if found is None:
            raise Missing(f'persistentvolumeclaim "{name}" not found')
        if found["metadata"].get("deletionTimestamp"):
            raise Missing(f'persistentvolumeclaim "{name}" is being deleted')
        return found
