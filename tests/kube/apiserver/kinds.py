"""The types of objects that the server knows: those of Kubernetes that we use, and those that CRDs make."""

import dataclasses
import threading


@dataclasses.dataclass(frozen=True)
class Kind:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple = ()
    # Whether status is written by itself.
    has_status: bool = True
    # Paths of fields, as in a CRD: specReplicasPath, statusReplicasPath, labelSelectorPath. None: no scale.
    scale: dict = None
    # Of CRDs.
    schema: dict = None
    columns: tuple = ()
    # Whether a replacement need not say which version it replaces.
    unconditional: bool = True

    __hash__ = object.__hash__

    @property
    def api_version(self):
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_custom(self):
        return self.schema is not None

    @property
    def id(self):
        """Names the type for good: a CRD may change its schema."""
        return (self.group, self.plural)


BUILT_IN = (
    Kind("", "v1", "namespaces", "Namespace", namespaced=False, short_names=("ns", )),
    Kind("", "v1", "nodes", "Node", namespaced=False, short_names=("no", )),
    Kind("", "v1", "pods", "Pod", short_names=("po", )),
    Kind("", "v1", "podtemplates", "PodTemplate", has_status=False),
    Kind("", "v1", "configmaps", "ConfigMap", short_names=("cm", ), has_status=False),
    Kind("", "v1", "secrets", "Secret", has_status=False),
    Kind("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa", ), has_status=False),
    Kind("", "v1", "services", "Service", short_names=("svc", )),
    Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc", )),
    Kind("", "v1", "events", "Event", short_names=("ev", ), has_status=False),
    Kind("apps", "v1", "deployments", "Deployment", short_names=("deploy", )),
    Kind("events.k8s.io", "v1", "events", "Event", short_names=("ev", ), has_status=False),
    Kind("coordination.k8s.io", "v1", "leases", "Lease", has_status=False, unconditional=False),
    Kind("scheduling.k8s.io",
         "v1",
         "priorityclasses",
         "PriorityClass",
         namespaced=False,
         short_names=("pc", ),
         has_status=False),
    Kind("storage.k8s.io",
         "v1",
         "storageclasses",
         "StorageClass",
         namespaced=False,
         short_names=("sc", ),
         has_status=False),
    Kind("rbac.authorization.k8s.io", "v1", "roles", "Role", has_status=False),
    Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", has_status=False),
    Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False,
         has_status=False),
    Kind("rbac.authorization.k8s.io",
         "v1",
         "clusterrolebindings",
         "ClusterRoleBinding",
         namespaced=False,
         has_status=False),
    Kind("admissionregistration.k8s.io",
         "v1",
         "validatingwebhookconfigurations",
         "ValidatingWebhookConfiguration",
         namespaced=False,
         has_status=False),
    Kind("apiextensions.k8s.io",
         "v1",
         "customresourcedefinitions",
         "CustomResourceDefinition",
         namespaced=False,
         short_names=("crd", "crds"),
         unconditional=False),
)


def kinds_of_crd(crd):
    """The types that a CustomResourceDefinition makes: one for each version that is served."""
    spec = crd["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources = version.get("subresources") or {}
        yield Kind(spec["group"],
                   version["name"],
                   names["plural"],
                   names["kind"],
                   namespaced=spec["scope"] == "Namespaced",
                   singular=names.get("singular") or names["kind"].lower(),
                   short_names=tuple(names.get("shortNames") or ()),
                   has_status="status" in subresources,
                   scale=subresources.get("scale"),
                   schema=version["schema"]["openAPIV3Schema"],
                   columns=tuple(version.get("additionalPrinterColumns") or ()),
                   unconditional=False)


class Registry:
    """Finds types by their address. Thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self._kinds = {(kind.group, kind.version, kind.plural): kind for kind in BUILT_IN}

    def find(self, group, version, plural):
        with self._lock:
            return self._kinds.get((group, version, plural))

    def all(self):
        with self._lock:
            return list(self._kinds.values())

    def register(self, kinds):
        with self._lock:
            for kind in kinds:
                self._kinds[(kind.group, kind.version, kind.plural)] = kind

    def unregister(self, group, plural):
        with self._lock:
            self._kinds = {
                key: kind
                for key, kind in self._kinds.items() if (kind.group, kind.plural) != (group, plural)
            }
