"""The guides, docs/kubernetes*.md: every document of YAML in them is taken by an API server's double with our CRDs, every folder that they
apply is one, and our own commands have the flags that they use. Kinds of others are looked at by hand, in the last test."""

import re
import shlex
import tempfile
import unittest

import yaml

import cluster
import flags_test
import manifests

GUIDES = sorted((manifests.ROOT / "docs").glob("kubernetes*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
APPLY = re.compile(r"kubectl (?:apply|delete) -([fk]) (\S+)")


def blocks(language):
    for guide in GUIDES:
        for found, text in BLOCK.findall(guide.read_text(encoding="utf-8")):
            if found == language:
                yield guide.name, text


def commands(program):
    """The command lines of a program, without what follows a pipe or closes a substitution."""
    for guide, text in blocks("sh"):
        for line in re.findall(rf"(?:^|\$\(|\| |\()({program} [^|)#\n]*)", text.replace("\\\n", " "), re.MULTILINE):
            yield guide, shlex.split(line.split(">")[0])


class GuidesTest(unittest.TestCase):

    def test_yaml_is_taken_by_the_api_server(self):
        documents = [(guide, item) for guide, text in blocks("yaml") for item in yaml.safe_load_all(text)]
        self.assertGreaterEqual(len(documents), 2)
        with tempfile.TemporaryDirectory() as folder:
            double = cluster.Cluster(folder, [], {})
            self.addCleanup(double.end)
            for crd in (manifests.KUBERNETES / "crds").glob("*.yaml"):
                [item] = manifests.read(crd)
                double.root.apply(item)
            for guide, item in documents:
                with self.subTest(guide=guide, object=manifests.name_of(item)):
                    made = double.root.create(item)
                    self.assertTrue(made["metadata"]["uid"])
                    # Nothing was dropped as unknown.
                    self.assertLessEqual(set(item["spec"]), set(made["spec"]))
            with self.assertRaises(cluster.Refused):
                double.root.create({**documents[0][1], "metadata": {"name": "no", "namespace": "default"},
                                    "spec": {"maxReplicas": "many"}})

    def test_what_is_applied_is_there(self):
        found = [match for _, text in blocks("sh") for match in APPLY.findall(text)]
        self.assertTrue(found)
        for flag, path in found:
            if path in ("-", "digits.yaml"):
                continue
            with self.subTest(path):
                if flag == "k":
                    self.assertIn(path.removeprefix("deploy/kubernetes/"), manifests.folders())
                else:
                    self.assertTrue((manifests.ROOT / path).exists())

    def test_our_commands_are_known(self):
        found = list(commands("adaptdl"))
        self.assertTrue(found)
        for guide, words in found:
            with self.subTest(guide=guide, command=shlex.join(words)):
                path = [word for word in words if not word.startswith("-")][:3]
                known = flags_test.flags_of(*path) | flags_test.flags_of("adaptdl")
                self.assertLessEqual({word.partition("=")[0] for word in words if word.startswith("--")}, known)

    def test_clusters_of_others(self):
        """Their schemas are not to be had offline: the fields that guides rely on."""
        [kind] = manifests.read(manifests.ROOT / "deploy/kind/cluster.yaml")
        self.assertEqual((kind["kind"], kind["apiVersion"]), ("Cluster", "kind.x-k8s.io/v1alpha4"))
        self.assertEqual([node["role"] for node in kind["nodes"]], ["control-plane", "worker", "worker"])
        [eks] = manifests.read(manifests.ROOT / "deploy/eks/cluster.yaml")
        self.assertEqual((eks["kind"], eks["apiVersion"]), ("ClusterConfig", "eksctl.io/v1alpha5"))
        guide = (manifests.ROOT / "docs/kubernetes-eks.md").read_text(encoding="utf-8")
        self.assertIn(f'CLUSTER={eks["metadata"]["name"]} REGION={eks["metadata"]["region"]}', guide)
        taint = {"key": "petuum.com/nodegroup", "value": "adaptdl", "effect": "NoSchedule"}
        for pool in eks["managedNodeGroups"]:
            self.assertIn(f'| `{pool["name"]}` |', guide)
            self.assertTrue(0 <= pool["minSize"] <= pool["desiredCapacity"] <= pool["maxSize"] <= 4)
            self.assertEqual(pool.get("taints", []), [] if pool["name"] == "control" else [taint])


if __name__ == "__main__":
    unittest.main()
