"""What a container finds: its environment, files, names, tokens, and other pods."""

import base64
import os
import unittest

from pods import PodTest

SERVE = """
import os, socket
server = socket.create_server((os.environ["IP"], 2345))
print("up")
while True:
    server.accept()[0].sendall(b"hello from " + os.environ["IP"].encode())
"""
ASK = "import socket, sys; print(socket.create_connection((sys.argv[1], 2345)).recv(99).decode())"
AUDIENCE = "conformance.adaptdl"


class EnvironmentTest(PodTest):

    def test_values_and_what_they_refer_to(self):
        env = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2 $$(A) $(NO)"}]
        said = self.output_of("echo $B; echo $0 $1", env=env, args=["x$(A)", "$(B)"])
        self.assertEqual(said, "12 $(A) $(NO)\nx1 12 $(A) $(NO)\n")

    def test_what_the_pod_knows_of_itself(self):
        fields = {
            "NAME": "metadata.name",
            "SPACE": "metadata.namespace",
            "ID": "metadata.uid",
            "LABEL": "metadata.labels['l']",
            "NODE": "spec.nodeName",
            "ADDRESS": "status.podIP"
        }
        env = [{
            "name": name,
            "valueFrom": {
                "fieldRef": {
                    "fieldPath": path
                }
            }
        } for name, path in fields.items()]
        said = self.output_of("echo $NAME $SPACE $ID $LABEL $NODE $ADDRESS",
                              env=env,
                              spec={"metadata": {
                                  "labels": {
                                      "l": "of-mine"
                                  }
                              }})
        pod = self.get(self.pod_path)
        self.assertEqual(said.split(), [
            self.name, self.namespace, pod["metadata"]["uid"], "of-mine", pod["spec"]["nodeName"],
            pod["status"]["podIP"]
        ])

    def test_resources(self):
        env = [{
            "name": name,
            "valueFrom": {
                "resourceFieldRef": {
                    "resource": resource,
                    "divisor": divisor
                }
            }
        } for name, resource, divisor in (("C", "limits.cpu", "1m"), ("M", "requests.memory", "1Mi"))]
        resources = {"requests": {"memory": "8Mi"}, "limits": {"cpu": "100m", "memory": "16Mi"}}
        self.assertEqual(self.output_of("echo $C $M", env=env, resources=resources).split(), ["100", "8"])

    def test_config_maps_and_secrets(self):
        self.make({"metadata": {"name": self.name}, "data": {"k": "v"}}, path=self.config_maps)
        secret = {"metadata": {"name": self.name}, "data": {"k": base64.b64encode(b"hidden").decode()}}
        self.make(secret, path=f"/api/v1/namespaces/{self.namespace}/secrets")
        env = [{
            "name": "A",
            "valueFrom": {
                "configMapKeyRef": {
                    "name": self.name,
                    "key": "k"
                }
            }
        }, {
            "name": "B",
            "valueFrom": {
                "secretKeyRef": {
                    "name": self.name,
                    "key": "k"
                }
            }
        }, {
            "name": "C",
            "valueFrom": {
                "secretKeyRef": {
                    "name": "none",
                    "key": "k",
                    "optional": True
                }
            }
        }]
        said = self.output_of("echo $A $B $C. $P_k",
                              env=env,
                              envFrom=[{
                                  "prefix": "P_",
                                  "configMapRef": {
                                      "name": self.name
                                  }
                              }])
        self.assertEqual(said, "v hidden . v\n")

    def test_it_waits_for_what_is_not_there(self):
        env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": self.name, "key": "k"}}}]
        self.start(self.container("echo $A", env=env))
        self.eventually(lambda: self.state()[1].get("reason") == "CreateContainerConfigError")
        self.make({"metadata": {"name": self.name}, "data": {"k": "late"}}, path=self.config_maps)
        self.wait_for_phase("Succeeded")
        self.assertEqual(self.log(), "late\n")

    def test_host_name_and_working_directory(self):
        self.assertEqual(self.output_of("hostname; pwd", workingDir="/usr").split(), [self.name, "/usr"])
        self.setUp()
        self.assertEqual(
            self.output_of("hostname", spec={
                "hostname": "by-another-name"
            }).strip(), "by-another-name")

    def test_containers_have_processes_of_their_own(self):
        self.assertEqual(self.output_of("echo $$$$").strip(), "1")


class VolumeTest(PodTest):

    def test_containers_share_an_empty_folder(self):
        mounts = [{"name": "v", "mountPath": "/v"}]
        for medium in ("", "Memory"):
            self.setUp()
            writer = self.container("echo hello > /v/f", "w", volumeMounts=mounts)
            volume = {"name": "v", "emptyDir": {"medium": medium}}
            said = self.output_of("cat /v/f; grep -c ' /v tmpfs' /proc/mounts || true",
                                  volumeMounts=mounts,
                                  spec={
                                      "initContainers": [writer],
                                      "volumes": [volume]
                                  })
            self.assertEqual(said.split()[0], "hello")
            if medium:
                self.assertEqual(said.split()[1], "1")

    def test_read_only_mounts_and_parts_of_volumes(self):
        mounts = [{
            "name": "v",
            "mountPath": "/v"
        }, {
            "name": "v",
            "mountPath": "/r",
            "readOnly": True
        }, {
            "name": "v",
            "mountPath": "/s",
            "subPath": "part/of"
        }]
        said = self.output_of(
            "touch /v/a && ls /r && ! touch /r/b 2>/dev/null && touch /s/c && ls /v/part/of",
            volumeMounts=mounts,
            spec={"volumes": [{
                "name": "v",
                "emptyDir": {}
            }]})
        self.assertEqual(said.split(), ["a", "part", "c"])

    def test_volumes_in_volumes_and_where_nothing_was(self):
        mounts = [{
            "name": "v",
            "mountPath": "/v"
        }, {
            "name": "w",
            "mountPath": "/v/in/it"
        }, {
            "name": "w",
            "mountPath": "/tmp/a/b"
        }]
        said = self.output_of("pwd; touch /v/in/it/f && ls /v /tmp/a/b && stat -c %a /tmp",
                              workingDir="/v/made/here",
                              volumeMounts=mounts,
                              spec={"volumes": [{
                                  "name": name,
                                  "emptyDir": {}
                              } for name in "vw"]})
        self.assertEqual(said.split(), ["/v/made/here", "/tmp/a/b:", "f", "/v:", "in", "made", "1777"])

    def test_what_a_container_writes_is_its_own(self):
        script = "test ! -e /written && echo x > /written && cat /written"
        self.assertEqual(self.output_of(script), "x\n")
        self.setUp()
        self.assertEqual(self.output_of(script), "x\n")

    def test_files_of_config_maps_and_secrets_and_of_the_pod(self):
        self.make({"metadata": {"name": self.name}, "data": {"k": "v", "other": "w"}}, path=self.config_maps)
        self.make({
            "metadata": {
                "name": self.name
            },
            "data": {
                "s": base64.b64encode(b"hidden").decode()
            }
        },
                  path=f"/api/v1/namespaces/{self.namespace}/secrets")
        volumes = [{
            "name": "c",
            "configMap": {
                "name": self.name,
                "items": [{
                    "key": "k",
                    "path": "deep/k"
                }]
            }
        }, {
            "name": "s",
            "secret": {
                "secretName": self.name
            }
        }, {
            "name": "d",
            "downwardAPI": {
                "items": [{
                    "path": "labels",
                    "fieldRef": {
                        "fieldPath": "metadata.labels"
                    }
                }]
            }
        }]
        mounts = [{"name": name, "mountPath": "/" + name + "v"} for name in "csd"]
        said = self.output_of("cat /cv/deep/k /sv/s /dv/labels; ls /cv",
                              volumeMounts=mounts,
                              spec={
                                  "volumes": volumes,
                                  "metadata": {
                                      "labels": {
                                          "l": "x"
                                      }
                                  }
                              })
        self.assertEqual(said, 'vhiddenl="x"deep\n')

    def test_a_token_says_which_pod_has_it(self):
        source = {"serviceAccountToken": {"path": "token", "audience": AUDIENCE, "expirationSeconds": 3600}}
        self.start(self.container("cat /var/run/secrets/adaptdl/token; echo; sleep 99",
                                  volumeMounts=[{
                                      "name": "t",
                                      "mountPath": "/var/run/secrets/adaptdl",
                                      "readOnly": True
                                  }]),
                   terminationGracePeriodSeconds=0,
                   volumes=[{
                       "name": "t",
                       "projected": {
                           "sources": [source]
                       }
                   }])
        self.wait_for_phase("Running")
        self.eventually(lambda: self.ask_for_log()[1])
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {
                "token": self.log().strip(),
                "audiences": [AUDIENCE]
            }
        }
        code, answer = self.api.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
        self.assertEqual(code, 201, answer)
        self.assertTrue(answer["status"].get("authenticated"), answer)
        extra = answer["status"]["user"]["extra"]
        pod = self.get(self.pod_path)["metadata"]
        self.assertEqual(extra["authentication.kubernetes.io/pod-name"], [self.name])
        self.assertEqual(extra["authentication.kubernetes.io/pod-uid"], [pod["uid"]])

    def test_a_claim_outlasts_the_pod(self):
        claims = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"
        claim = {
            "metadata": {
                "name": self.name
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {
                    "requests": {
                        "storage": "1Mi"
                    }
                }
            }
        }
        self.make(claim, path=claims)
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": self.name}}
        mounts = [{"name": "v", "mountPath": "/v"}]
        self.output_of("echo kept > /v/f", volumeMounts=mounts, spec={"volumes": [volume]})
        self.eventually(lambda: self.get(f"{claims}/{volume['persistentVolumeClaim']['claimName']}")["status"]
                        ["phase"] == "Bound")
        self.api.call("DELETE", self.pod_path)
        self.eventually(self.is_gone)
        self.setUp()
        self.assertEqual(self.output_of("cat /v/f", volumeMounts=mounts, spec={"volumes": [volume]}),
                         "kept\n")


class NetworkTest(PodTest):

    def test_pods_reach_each_other(self):
        image = {"image": os.environ["ADAPTDL_CONFORMANCE_PYTHON_IMAGE"]}
        address = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        serve = ["python3", "-u", "-c", SERVE]
        self.start({
            **self.container("", env=[address]),
            **image, "command": serve
        },
                   terminationGracePeriodSeconds=0)
        self.eventually(lambda: "up" in self.ask_for_log()[1])
        ip = self.status()["podIP"]
        self.setUp()
        self.run_to_the_end({**self.container(""), **image, "command": ["python3", "-c", ASK, ip]})
        self.assertEqual(self.log(), f"hello from {ip}\n")


if __name__ == "__main__":
    unittest.main()
