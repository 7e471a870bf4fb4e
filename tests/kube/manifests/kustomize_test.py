"""Everything that can be applied renders, with the kubectl that is here, and has no field that an older one does not know."""

import unittest

import yaml

import manifests

# What kustomize 2.0 knows, which kubectl 1.20 has. A newer field would be lost there, or be an error.
OLD_FIELDS = {"apiVersion", "kind", "namespace", "bases", "resources", "patchesStrategicMerge", "patchesJson6902", "images"}


class KustomizeTest(unittest.TestCase):

    def test_all_folders_render(self):
        expected = {*manifests.OPERATOR, *manifests.AGENTS, "user", "monitoring", "autoscaler"}
        self.assertEqual(set(manifests.folders()), expected)
        for folder in expected:
            with self.subTest(folder):
                self.assertTrue(manifests.render(folder))

    def test_old_kubectl_knows_the_fields(self):
        for folder in manifests.folders():
            [kustomization] = manifests.read(manifests.KUBERNETES / folder / "kustomization.yaml")
            with self.subTest(folder):
                self.assertLessEqual(set(kustomization), OLD_FIELDS)
                # There, folders are bases and files are resources.
                for base in kustomization.get("bases", ()):
                    self.assertTrue((manifests.KUBERNETES / folder / base).is_dir())
                for resource in kustomization.get("resources", ()):
                    self.assertTrue((manifests.KUBERNETES / folder / resource).is_file())

    def test_no_file_is_left_out(self):
        for folder in manifests.folders():
            path = manifests.KUBERNETES / folder
            text = (path / "kustomization.yaml").read_text(encoding="utf-8")
            for file in path.glob("*.yaml"):
                with self.subTest(str(file)):
                    self.assertTrue(file.name == "kustomization.yaml" or f" {file.name}\n" in text + "\n")

    def test_cluster_objects_have_no_namespace_and_others_have_one(self):
        for folder in manifests.folders():
            for item in manifests.render(folder):
                with self.subTest(folder=folder, object=manifests.name_of(item)):
                    expected = "default" if folder == "user" else "adaptdl"
                    expected = None if item["kind"] in manifests.CLUSTER_KINDS else expected
                    self.assertEqual(item["metadata"].get("namespace"), expected)

    def test_names_are_unique(self):
        for folder in manifests.folders():
            names = [manifests.name_of(item) for item in manifests.render(folder)]
            self.assertEqual(len(names), len(set(names)), yaml.safe_dump(sorted(names)))


if __name__ == "__main__":
    unittest.main()
