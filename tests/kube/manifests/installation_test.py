"""The operator as its manifests install it, beside doubles of the API server and of kubelets: every pod gets ready, jobs of a user with the
user's role train and end, a standby takes over, and the supervisor's roles hold what it does and nothing else."""

import copy
import json
import os
import pathlib
import shutil
import tempfile
import unittest

import cluster
import installation
import manifests

ACCOUNT = "system:serviceaccount:adaptdl:"
# Rights that a run on doubles has no use for, and why they are given.
UNUSED = {
    "update adaptdl.petuum.com/adaptdljobs/finalizers",  # asked where OwnerReferencesPermissionEnforcement is on
    "get /pods/log",  # adaptdl logs
}
PROGRAM = str(pathlib.Path(os.environ["ADAPTDL_BIN"]) / "adaptdl-mnist")
POOL = {"petuum.com/nodegroup": "adaptdl"}
NODES = [{"name": f"node-{i}", "labels": POOL, "allocatable": {"cpu": "1", "memory": "4Gi", "pods": "10"}}
         for i in range(2)]
PAUSE = "registry.k8s.io/pause:3.10"
JOBS = "/apis/adaptdl.petuum.com/v1/namespaces/default/adaptdljobs"


def job(name, **changes):
    container = {
        "name": "main",
        "image": "train",
        "command": [PROGRAM],
        "args": ["--epochs", "1"],
        "env": [{"name": "OMP_NUM_THREADS", "value": "1"}],
        "resources": {"requests": {"cpu": "1"}}
    }
    return {
        "apiVersion": "adaptdl.petuum.com/v1",
        "kind": "AdaptDLJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"maxReplicas": 2, "template": {"spec": {"containers": [container]}}} | changes
    }


def autoscaler():
    """As on EKS, with nodes like those here."""
    plain = set(map(manifests.name_of, manifests.render("base")))
    items = [copy.deepcopy(item) for item in manifests.render("overlays/eks")
             if manifests.name_of(item) not in plain and item["kind"] != "StorageClass"]
    for _, _, container in manifests.containers(items):
        container["args"] = ['--node-resources={"cpu": "1"}' if argument.startswith("--node-resources=") else argument
                             for argument in container["args"]]
    return tuple(items)


def rules_of(items, account):
    """What the roles that are bound to an account allow, as the API server's double writes it."""
    roles = {manifests.name_of(item): item for item in manifests.of_kind(items, "Role", "ClusterRole")}
    for binding in manifests.of_kind(items, "RoleBinding", "ClusterRoleBinding"):
        if any(subject["name"] == account for subject in binding["subjects"]):
            for rule in roles[f'{binding["roleRef"]["kind"]}/{binding["roleRef"]["name"]}']["rules"]:
                yield from (f"{verb} {group}/{resource}" for verb in rule["verbs"] for group in rule["apiGroups"]
                            for resource in rule["resources"])


class InstallationTest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="adaptdl-installation-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.cluster = cluster.Cluster(self.folder, NODES,
                                       {"train": {}, PAUSE: {"entrypoint": ["/usr/bin/sleep", "infinity"]}})
        self.addCleanup(self.cluster.end)
        if not self.cluster.start_nodes():
            self.skipTest("no containers may run here: be root with CAP_SYS_ADMIN")
        crds = [crd for file in (manifests.KUBERNETES / "crds").glob("*.yaml") for crd in manifests.read(file)]
        for crd in crds:
            self.cluster.root.apply(crd)
        self.items = manifests.render("base") + autoscaler() + manifests.render("user")
        self.installed = installation.Installation(self.cluster, self.folder / "installation", self.items)
        self.installed.bring_in_objects()
        self.installed.bring_in_secrets()
        self.addCleanup(self.installed.end)
        # A class that many nodes may write, as that of EFS.
        self.cluster.root.apply({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "shared"},
            "provisioner": "test", "volumeBindingMode": "Immediate"})

    def wait_for_phase(self, name, phase):
        def phase_of():
            status = self.cluster.root.get("AdaptDLJob", name).get("status") or {}
            return status.get("phase") == phase

        installation.wait_until(f"job {name} is {phase}", phase_of, 120)

    def faults(self, *faults):
        self.cluster.root.call("POST", "/-/faults", list(faults))

    def test_jobs_train_with_exactly_these_rights(self):
        try:
            self.use_all()
        except AssertionError:
            print(*(f"{pod.name}:\n{pod.log()[-6000:]}" for pod in self.installed.pods.values()), sep="\n")
            raise

    def use_all(self):
        self.installed.start({"supervisor": ["--checkpoint-storage-class=shared"],
                              "autoscaler": ["--min-nodes=1", "--cooldown=1s", "--poll-period=200ms"]})
        leader = self.installed.leader()
        [standby] = [pod for pod in self.installed.supervisors() if pod is not leader]
        self.assertFalse(standby.leads())
        self.assertEqual([pod.labels().get("adaptdl.petuum.com/leads") for pod in (leader, standby)], ["true", None])
        self.assertTrue(standby.is_ready(), "it answers the API server")
        installation.wait_until("an idle node is held", lambda: self.uses("adaptdl-autoscaler", "create /pods"))
        self.use_as_an_object(standby)
        self.use_by_the_command()
        self.use_as_an_admin()
        # The other one takes over, and its jobs end, too.
        leader.end(kill=True)
        installation.wait_until("the standby leads", standby.leads)
        self.cluster.root.create(job("last"))
        self.wait_for_phase("last", "Succeeded")
        standby.end()
        self.check_rights()

    def use_as_an_object(self, webhook):
        """By a user's own role, with the API server's webhook on."""
        self.installed.serve_webhook_by(webhook)
        user = cluster.Api(self.cluster.url, self.cluster.root.token_of("adaptdl-user", "default"))
        with self.assertRaises(cluster.Refused) as refused:
            user.create(job("wrong", minReplicas=9))
        self.assertIn("spec.minReplicas is 9, more than spec.maxReplicas, 2", refused.exception.message)
        # The supervisor looks again where another one may have written, too.
        self.faults({"verb": "patch", "resource": "adaptdljobs/status", "status": 409},
                    {"verb": "patch", "resource": "pods", "status": 409})
        user.create(job("applied"))
        self.wait_for_phase("applied", "Succeeded")
        user.call("DELETE", f"{JOBS}/applied")

    def use_by_the_command(self):
        token = self.cluster.root.token_of("adaptdl-user", "default", "adaptdl")
        file = self.folder / "job.yaml"
        file.write_text(json.dumps(job("submitted")))
        self.installed.run(token, "submit", str(file))
        self.installed.run(token, "update", "submitted", "--max-replicas", "1")
        self.wait_for_phase("submitted", "Succeeded")
        self.assertIn("submitted", self.installed.run(token, "ls"))
        self.installed.run(token, "delete", "submitted")
        # What the role does not say.
        self.assertIn("may not list adaptdlquotas", self.installed.run(token, "quota", "ls", code=1))
        stranger = self.cluster.root.token_of("default", "default", "adaptdl")
        self.assertIn("may not list adaptdljobs", self.installed.run(stranger, "ls", code=1))

    def use_as_an_admin(self):
        self.installed.run(cluster.ROOT_TOKEN, "quota", "set", "default", "--jobs", "3")
        self.assertEqual(self.cluster.root.get("AdaptDLQuota", "quota")["kind"], "AdaptDLQuota")
        self.installed.run(cluster.ROOT_TOKEN, "quota", "rm", "default")

    def used_by(self, account):
        return self.cluster.root.call("GET", "/-/rights").get(ACCOUNT + account, {"allowed": [], "refused": []})

    def uses(self, account, right):
        return right in self.used_by(account)["allowed"]

    def lacks(self, account):
        """Rights that it has, and has not used yet."""
        return set(rules_of(self.items, account)) - set(self.used_by(account)["allowed"])

    def check_rights(self):
        # A pool that shrinks takes longer: tests/integration/kubernetes/autoscaling_test.cc.
        for account, unused in (("adaptdl-supervisor", UNUSED), ("adaptdl-autoscaler", {"delete /pods"})):
            with self.subTest(account):
                self.assertEqual(self.used_by(account)["refused"], [])
                self.assertEqual(self.lacks(account), unused)


if __name__ == "__main__":
    unittest.main()
