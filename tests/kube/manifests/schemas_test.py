"""Objects by the schemas of the oldest and the newest Kubernetes that deploy/kubernetes supports."""

import unittest

import kubernetes_validate

import manifests

VERSIONS = ("1.27", "1.35")
# Of others, whose schemas are not here; tests/monitoring looks at the rules.
FOREIGN = {"ServiceMonitor", "PrometheusRule"}


class SchemasTest(unittest.TestCase):

    def test_objects_are_valid(self):
        for folder in manifests.folders():
            for item in manifests.render(folder):
                if item["kind"] in FOREIGN:
                    continue
                for version in VERSIONS:
                    with self.subTest(folder=folder, object=manifests.name_of(item), version=version):
                        kubernetes_validate.validate(item, version, strict=True)

    def test_crds_are_valid(self):
        files = sorted((manifests.KUBERNETES / "crds").glob("*.yaml"))
        self.assertEqual(len(files), 2)
        for file in files:
            for crd in manifests.read(file):
                for version in VERSIONS:
                    with self.subTest(file=file.name, version=version):
                        kubernetes_validate.validate(crd, version, strict=True)

    def test_a_wrong_object_is_found(self):
        [service, *_] = manifests.of_kind(manifests.render("base"), "Service")
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate({**service, "spec": {**service["spec"], "port": 1}}, VERSIONS[0], strict=True)


if __name__ == "__main__":
    unittest.main()
