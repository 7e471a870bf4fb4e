"""The rules that every pod of ours keeps: restricted security context, probes, requests, and no more secrets than it needs."""

import unittest

import manifests

WHOLE = manifests.OPERATOR + manifests.AGENTS
# Beside its certificate. An autoscaler of workers gives them theirs.
SECRETS = {
    "supervisor": {"adaptdl-webhook-tls", "adaptdl-group-key"},
    "allocator": set(),
}
SCALED_SECRETS = SECRETS | {"autoscaler": set()}
AGENT_SECRETS = {
    "supervisor": {"adaptdl-tokens", "adaptdl-admin-token"},
    "allocator": {"adaptdl-tokens"},
    "autoscaler": {"adaptdl-tokens", "adaptdl-worker-tls"},
    "worker": set(),
}


def secrets_by_service(folder):
    return AGENT_SECRETS if folder in manifests.AGENTS else SCALED_SECRETS if folder in manifests.SCALED else SECRETS


def secrets_of(pod, container):
    volumes = {volume["name"]: volume["secret"] for volume in pod.get("volumes", ()) if "secret" in volume}
    return [(mount, volumes[mount["name"]]) for mount in container["volumeMounts"] if mount["name"] in volumes]


def of_each_container(check):
    """A test that checks each container of each folder by itself."""

    def test(self):
        for folder in WHOLE:
            for item, pod, container in manifests.containers(manifests.render(folder)):
                with self.subTest(folder=folder, object=manifests.name_of(item), container=container["name"]):
                    check(self, folder, pod, container)

    return test


class PodsTest(unittest.TestCase):

    def test_all_services_are_there(self):
        for folder in WHOLE:
            names = {container["name"] for _, _, container in manifests.containers(manifests.render(folder))}
            self.assertEqual(names, set(secrets_by_service(folder)), folder)

    @of_each_container
    def test_pods_are_restricted(self, _folder, pod, container):
        self.assertIs(pod["securityContext"]["runAsNonRoot"], True)
        self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        security = container["securityContext"]
        self.assertIs(security["allowPrivilegeEscalation"], False)
        self.assertIs(security["readOnlyRootFilesystem"], True)
        self.assertEqual(security["capabilities"], {"drop": ["ALL"]})

    @of_each_container
    def test_probes_ask_over_tls(self, folder, _pod, container):
        for probe in (container["readinessProbe"], container["livenessProbe"]):
            if folder in manifests.OPERATOR and container["name"] == "supervisor":
                # A standby serves no gRPC.
                self.assertEqual(probe["httpGet"], {"scheme": "HTTPS", "port": "webhook", "path": "/healthz"})
                continue
            command = probe["exec"]["command"]
            self.assertEqual(command[:2], ["adaptdl", "health"])
            self.assertIn(f'--tls-server-name={container["name"]}.adaptdl', command)
            self.assertIn({"name": "ADAPTDL_CA_FILE", "value": "/etc/adaptdl/tls/ca.crt"}, container["env"])

    @of_each_container
    def test_resources_and_images(self, _folder, _pod, container):
        self.assertLessEqual({"cpu", "memory"}, set(container["resources"]["requests"]))
        self.assertIn("memory", container["resources"]["limits"])
        self.assertRegex(container["image"], "^adaptdl:.+")

    def test_one_image_runs_the_control_plane(self):
        for folder in WHOLE:
            images = {container["image"] for _, _, container in manifests.containers(manifests.render(folder))
                      if container["name"] != "worker"}
            self.assertEqual(len(images), 1, folder)

    @of_each_container
    def test_each_has_its_own_secrets_alone(self, folder, pod, container):
        name = container["name"]
        mounted = secrets_of(pod, container)
        allowed = secrets_by_service(folder)[name]
        self.assertEqual({secret["secretName"] for _, secret in mounted}, allowed | {f"adaptdl-{name}-tls"})
        for mount, secret in mounted:
            self.assertIs(mount["readOnly"], True)
            self.assertEqual(secret["defaultMode"], 0o440)
        for flag, file in (("cert", "tls.crt"), ("key", "tls.key"), ("ca", "ca.crt")):
            self.assertIn(f"--tls-{flag}=/etc/adaptdl/tls/{file}", container["args"])

    @of_each_container
    def test_files_in_flags_are_mounted(self, _folder, _pod, container):
        mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
        for argument in container["args"]:
            path = argument.partition("=")[2]
            if path.startswith("/"):
                self.assertTrue(any(path == mount or path.startswith(mount + "/") for mount in mounts), argument)

    def test_mounts_are_volumes(self):
        for folder in WHOLE:
            for item, pod, container in manifests.containers(manifests.render(folder)):
                volumes = {volume["name"] for volume in pod.get("volumes", ())}
                volumes |= {claim["metadata"]["name"] for claim in item["spec"].get("volumeClaimTemplates", ())}
                with self.subTest(folder=folder, object=manifests.name_of(item)):
                    self.assertEqual({mount["name"] for mount in container["volumeMounts"]}, volumes)

    @of_each_container
    def test_gpus(self, folder, pod, container):
        """NVIDIA's device plugin hands out GPUs by limits."""
        gpus = [name for name in container["resources"]["limits"] if name.startswith("nvidia.com/")]
        self.assertEqual(bool(gpus), folder == "overlays/gpu" and container["name"] == "worker")
        self.assertEqual(container["image"].endswith("cuda"), bool(gpus))
        if gpus:
            shared = {volume["name"] for volume in pod["volumes"]
                      if volume.get("emptyDir", {}).get("medium") == "Memory"}
            self.assertTrue(any(mount["mountPath"] == "/dev/shm" and mount["name"] in shared
                                for mount in container["volumeMounts"]), "64 MB are too little for NCCL")
            self.assertTrue(any(taint.get("key") == "nvidia.com/gpu" for taint in pod["tolerations"]))


if __name__ == "__main__":
    unittest.main()
