"""The chart, deploy/helm/adaptdl, makes the objects that kustomize makes of deploy/kubernetes, but for what is named here. Rendered by
chart/render.go, with sprig itself; scripts/test-helm.sh asks Helm."""

import base64
import copy
import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import jsonschema
import kubernetes_validate
import yaml

import flags_test
import manifests
import schemas_test

CHART = manifests.ROOT / "deploy/helm/adaptdl"
SOURCE = pathlib.Path(__file__).resolve().parent / "chart/render.go"
HOST = "adaptdl-webhook.adaptdl.svc"
SECRET = "Secret/adaptdl/adaptdl-webhook-tls"


@functools.cache
def renderer():
    """The program, kept in the build folder; built again where its source is newer."""
    program = pathlib.Path(os.environ["ADAPTDL_BIN"]).parent / "kubernetes-chart/render"
    if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
        program.parent.mkdir(exist_ok=True)
        subprocess.run(["go", "build", "-o", program, SOURCE], check=True, env=os.environ | {
            "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": "", "GOCACHE": str(program.parent / "cache")})
    return program


def rendered(values=None, objects=None):
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, content in (("values", values), ("objects", objects)):
            files.append(pathlib.Path(folder) / f"{name}.json")
            files[-1].write_text(json.dumps(content or {}))
        done = subprocess.run([renderer(), CHART, *files], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    documents = json.loads(done.stdout)
    documents.pop("NOTES.txt")
    return [item for text in documents.values() for item in yaml.safe_load_all(text) if item]


def by_name(items):
    return {manifests.name_of(item): item for item in items}


def arguments(items):
    return by_name(items)["StatefulSet/adaptdl-supervisor"]["spec"]["template"]["spec"]["containers"][0]["args"]


def decoded(text):
    return base64.b64decode(text).decode()


@unittest.skipUnless(shutil.which("go"), "no Go; scripts/setup.sh installs one")
class ChartTest(unittest.TestCase):

    def test_it_makes_what_kustomize_makes(self):
        chart, plain = by_name(rendered()), copy.deepcopy(by_name(manifests.render("base")))
        self.assertEqual(set(plain) - set(chart), {"Namespace/adaptdl"}, "Helm makes it, or whoever calls Helm")
        self.assertEqual(set(chart) - set(plain), {"Secret/adaptdl-webhook-tls", "Service/adaptdl-metrics"})
        # What kustomize leaves to a patch, and to the programs' own defaults.
        [hook] = chart["ValidatingWebhookConfiguration/adaptdl"]["webhooks"]
        self.assertTrue(hook["clientConfig"].pop("caBundle"))
        self.assertTrue(arguments(chart.values()).pop().startswith("--default-resources="))
        for name, item in plain.items():
            if name in chart:
                with self.subTest(name):
                    self.assertEqual(chart[name], item)

    def test_the_autoscaler_is_that_of_kustomize(self):
        """By the arguments that an overlay adds; whether it stays off spot nodes is the overlay's."""
        values = {"autoscaler": {"enabled": True, "maxNodes": 8, "nodeSelector": "petuum.com/nodegroup=adaptdl"}}
        chart = by_name(rendered(values))
        for name, item in by_name(manifests.render("autoscaler")).items():
            if item["kind"] != "Deployment":
                self.assertEqual(chart[name], item)
        name = "Deployment/adaptdl-autoscaler"
        plain = copy.deepcopy(by_name(manifests.render("overlays/eks"))[name])
        del plain["spec"]["template"]["spec"]["affinity"]
        for item in (chart[name], plain):
            [container] = item["spec"]["template"]["spec"]["containers"]
            container["args"] = {flag: json.loads(value) if value.startswith("{") else value for flag, _, value in
                                 (argument.partition("=") for argument in container["args"])}
        self.assertEqual(chart[name], plain)
        with self.assertRaisesRegex(AssertionError, "autoscaler.nodeSelector"):
            rendered({"autoscaler": {"enabled": True}})

    def test_crds_are_the_same(self):
        for file in (manifests.KUBERNETES / "crds").glob("*.yaml"):
            self.assertEqual((CHART / "crds" / file.name).read_text(encoding="utf-8"), file.read_text(encoding="utf-8"))

    def test_everything_on_is_valid(self):
        metrics = {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}
        items = rendered({"docker-registry": {"enabled": True}, "metrics": metrics,
                          "checkpoints": {"storageClass": "efs"}, "image": {"pullSecrets": ["registry"]}})
        self.assertLessEqual({"Deployment/adaptdl-registry", "Service/adaptdl-registry", "ServiceMonitor/adaptdl", "PrometheusRule/adaptdl"},
                             set(by_name(items)))
        for item in items:
            for version in schemas_test.VERSIONS:
                if item["kind"] not in schemas_test.FOREIGN:
                    with self.subTest(object=manifests.name_of(item), version=version):
                        kubernetes_validate.validate(item, version, strict=True)
        self.assertIn("--checkpoint-storage-class=efs", arguments(items))

    def test_rules_are_those_of_every_prometheus(self):
        items = by_name(rendered({"metrics": {"prometheusRule": {"enabled": True, "selector": {"release": "mine"}}}}))
        rule = items["PrometheusRule/adaptdl"]
        [rules] = manifests.read(manifests.ROOT / "deploy/prometheus/rules/adaptdl.yml")
        self.assertEqual(rule["spec"], rules)
        self.assertEqual(rule["metadata"]["labels"]["release"], "mine")
        self.assertNotIn("PrometheusRule/adaptdl", by_name(rendered()))

    def test_the_monitor_is_that_of_kustomize(self):
        """So that the rules find the same labels."""
        monitors = [by_name(items)["ServiceMonitor/adaptdl"]["spec"] for items in (
            rendered({"metrics": {"serviceMonitor": {"enabled": True}}}), manifests.render("monitoring"))]
        self.assertEqual(monitors[0]["endpoints"], monitors[1]["endpoints"])

    def test_flags_are_known(self):
        patch = [{"op": "add", "path": "/metadata/labels/a", "value": "b\"c"}]
        items = rendered({"job": {"patch": {"pods": patch, "containers": patch}}, "checkpoints": {"storageClass": "efs"},
                          "autoscaler": {"enabled": True, "nodeSelector": "a=b", "nodeTolerations": [{"key": "a"}]}})
        for _, _, container in manifests.containers(items):
            for argument in container["args"]:
                self.assertIn(argument.partition("=")[0], flags_test.flags_of(*container["command"]))
        self.assertIn(patch, [json.loads(argument.partition("=")[2]) for argument in arguments(items)
                              if argument.startswith("--patch-pods=")])

    def test_images(self):
        digest = "sha256:" + "0" * 64
        for image, expected in (({"tag": "2"}, "adaptdl:2"), ({"tag": "2", "digest": digest}, f"adaptdl@{digest}")):
            items = rendered({"image": image})
            self.assertEqual({container["image"] for _, _, container in manifests.containers(items)}, {expected})

    def test_one_supervisor_has_one_address(self):
        address = "adaptdl-supervisor-0.adaptdl-supervisor.adaptdl.svc:7100"
        self.assertIn(f"--replica-supervisor-address={address}", arguments(rendered({"supervisor": {"replicas": 1}})))

    def test_the_webhooks_certificate_is_verified(self):
        items = by_name(rendered())
        secret = items["Secret/adaptdl-webhook-tls"]["data"]
        [hook] = items["ValidatingWebhookConfiguration/adaptdl"]["webhooks"]
        self.assertEqual(hook["clientConfig"]["caBundle"], secret["ca.crt"])
        with tempfile.TemporaryDirectory() as folder:
            for name, content in secret.items():
                (pathlib.Path(folder) / name).write_text(decoded(content))
            verify = ["openssl", "verify", "-CAfile", "ca.crt", "-verify_hostname"]
            subprocess.run([*verify, HOST, "tls.crt"], cwd=folder, check=True, capture_output=True)
            other = subprocess.run([*verify, "other.adaptdl.svc", "tls.crt"], cwd=folder, check=False, capture_output=True)
            self.assertNotEqual(other.returncode, 0)

    def test_an_upgrade_keeps_the_certificate(self):
        secret = by_name(rendered())["Secret/adaptdl-webhook-tls"]
        secret["metadata"]["annotations"] = {"meta.helm.sh/release-name": "adaptdl"}
        again = by_name(rendered(objects={SECRET: secret}))
        self.assertEqual(again["Secret/adaptdl-webhook-tls"]["data"], secret["data"])
        [hook] = again["ValidatingWebhookConfiguration/adaptdl"]["webhooks"]
        self.assertEqual(hook["clientConfig"]["caBundle"], secret["data"]["ca.crt"])

    def test_a_certificate_of_others_is_left_alone(self):
        """That of adaptdl admin kubernetes-secrets, say."""
        objects = {SECRET: {"metadata": {"name": "adaptdl-webhook-tls"}, "data": {"ca.crt": "Y2E="}}}
        items = by_name(rendered(objects=objects))
        self.assertNotIn("Secret/adaptdl-webhook-tls", items)
        [hook] = items["ValidatingWebhookConfiguration/adaptdl"]["webhooks"]
        self.assertEqual(hook["clientConfig"]["caBundle"], "Y2E=")

    def test_values_follow_their_schema(self):
        schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
        jsonschema.Draft7Validator.check_schema(schema)
        [values] = manifests.read(CHART / "values.yaml")
        jsonschema.validate(values, schema)
        for wrong in ({"supervisor": {"service": {"port": 8080}}}, {"image": {"digest": "latest"}}, {"sched": {"cpu": 1}},
                      {"docker-registry": {"service": {"nodePort": 80}}}, {"job": {"patch": {"pods": [{"op": "set"}]}}}):
            with self.subTest(wrong), self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate(wrong, schema)

    def test_the_version_is_that_of_the_image(self):
        [chart] = manifests.read(CHART / "Chart.yaml")
        [kustomization] = manifests.read(manifests.KUBERNETES / "base/kustomization.yaml")
        self.assertEqual(chart["appVersion"], kustomization["images"][0]["newTag"])


if __name__ == "__main__":
    unittest.main()
