"""A cluster without machines: its store, the rules, and what follows deletions."""

import os

from .admission import Admission
from .collector import Collector
from .faults import Faults
from .identity import Tokens
from .kinds import Registry, kinds_of_crd
from .rbac import Authorizer
from .rest import Change, Rest
from .store import Store

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class Cluster:

    def __init__(self, bookmark_period=60, state_file=None, people=None, services_file=None):
        """`state_file`: what save() has written, if it is there; then the cluster goes on. `people`: {token: User}; None:
        anybody may do anything. `services_file`: as Admission has it."""
        self.bookmark_period, self._state_file = bookmark_period, state_file
        self.store = Store()
        self.registry = Registry()
        self.rest = Rest(self.store, self.registry)
        self.admission = Admission(self.store, self.registry, services_file)
        self.tokens = Tokens(self.store, self.registry, people)
        self.authorizer = Authorizer(self.store, self.registry)
        self.is_open = people is None
        self.faults = Faults(self.store)
        goes_on = state_file and os.path.exists(state_file)
        if goes_on:
            self.store.load(state_file)
            crds, _ = self.store.list(
                self.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions"))
            for crd in crds:
                self.registry.register(kinds_of_crd(crd))
        Collector(self.store, self.rest, self.registry).start()
        self.store.subscribers.append(self._give_account)
        if not goes_on:
            namespaces = self.registry.find("", "v1", "namespaces")
            for name in NAMESPACES:
                self.rest.create(namespaces, "", {"metadata": {"name": name}}, Change("apiserver"))

    def save(self):
        if self._state_file:
            self.store.save(self._state_file)

    def _give_account(self, kind, event):
        """Each namespace has a service account, without which pods can't be made."""
        if kind.kind == "Namespace" and event.type == "ADDED":
            accounts = self.registry.find("", "v1", "serviceaccounts")
            self.rest.create(accounts, event.object["metadata"]["name"], {"metadata": {
                "name": "default"
            }}, Change("apiserver"))
