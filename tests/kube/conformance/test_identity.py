"""Tokens of service accounts, and who may do what."""

import unittest

from api import ConformanceTest

AUDIENCE = "conformance.adaptdl"


class TokenTest(ConformanceTest):

    def token(self, pod=None, **spec):
        if pod:
            spec["boundObjectRef"] = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"]
            }
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [AUDIENCE],
                **spec
            }
        }
        return self.api.call("POST", path, request)

    def review(self, token, *audiences):
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {
                "token": token,
                "audiences": list(audiences)
            }
        }
        code, answer = self.api.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)
        self.assertEqual(code, 201, answer)
        return answer["status"]

    def pod(self):
        return self.make(
            {
                "metadata": {
                    "name": self.name
                },
                "spec": {
                    "containers": [{
                        "name": "a",
                        "image": "x"
                    }],
                    "schedulerName": "nobody"
                }
            },
            path=self.pods)

    def test_a_token_says_who_has_it(self):
        code, answer = self.token()
        self.assertEqual(code, 201, answer)
        status = self.review(answer["status"]["token"], AUDIENCE)
        self.assertTrue(status["authenticated"])
        self.assertEqual(status["audiences"], [AUDIENCE])
        self.assertEqual(status["user"]["username"], f"system:serviceaccount:{self.namespace}:default")
        self.assertIn(f"system:serviceaccounts:{self.namespace}", status["user"]["groups"])

    def test_a_token_is_for_its_audience_only(self):
        token = self.token()[1]["status"]["token"]
        for audiences in ((), ("somebody else", )):
            status = self.review(token, *audiences)
            self.assertFalse(status.get("authenticated"))
            self.assertTrue(status["error"])
        self.assertTrue(self.review(token, "somebody else", AUDIENCE)["authenticated"])

    def test_a_pods_token_names_the_pod_and_ends_with_it(self):
        pod = self.pod()
        token = self.token(pod)[1]["status"]["token"]
        extra = self.review(token, AUDIENCE)["user"]["extra"]
        self.assertEqual(extra["authentication.kubernetes.io/pod-name"], [self.name])
        self.assertEqual(extra["authentication.kubernetes.io/pod-uid"], [pod["metadata"]["uid"]])
        self.api.call("DELETE", f"{self.pods}/{self.name}")
        self.eventually(lambda: not self.review(token, AUDIENCE).get("authenticated"))

    def test_a_token_is_bound_to_the_pod_that_was_meant(self):
        pod = self.pod()
        pod["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
        self.assert_refused(self.token(pod), 409, "Conflict")

    def test_what_is_no_token_proves_nothing(self):
        self.assertFalse(self.review("nonsense", AUDIENCE).get("authenticated"))
        token = self.token()[1]["status"]["token"]
        self.assertFalse(self.review(token[:-4] + "AAAA", AUDIENCE).get("authenticated"))

    def test_a_token_lasts_ten_minutes_at_least(self):
        self.assert_refused(self.token(expirationSeconds=10), 422, "Invalid")


class AccessTest(ConformanceTest):

    def give(self, subject, *rules):
        """Lets the subject do this in the namespace."""
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}/"
        self.make({"metadata": {"name": self.name}, "rules": list(rules)}, path=path + "roles")
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": self.name}
        self.make({
            "metadata": {
                "name": self.name
            },
            "roleRef": reference,
            "subjects": [subject]
        },
                  path=path + "rolebindings")

    def may(self, user, verb, resource, groups=(), namespace=None, **more):
        attributes = {
            "verb": verb,
            "resource": resource,
            "namespace": self.namespace if namespace is None else namespace,
            **more
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user,
                "groups": list(groups),
                "resourceAttributes": attributes
            }
        }
        code, answer = self.api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
        self.assertEqual(code, 201, answer)
        return answer["status"]["allowed"]

    def test_a_role_allows_what_it_says_and_nothing_else(self):
        user = "ann-" + self.name
        self.assertFalse(self.may(user, "get", "pods"))
        self.give({
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "User",
            "name": user
        }, {
            "apiGroups": [""],
            "resources": ["pods", "pods/log"],
            "verbs": ["get", "list"]
        }, {
            "apiGroups": [self.group],
            "resources": ["*"],
            "verbs": ["*"]
        }, {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["mine"],
            "verbs": ["get"]
        })
        self.eventually(lambda: self.may(user, "get", "pods"))
        self.assertTrue(self.may(user, "get", "pods", subresource="log"))
        self.assertTrue(self.may(user, "delete", "widgets", group=self.group))
        self.assertTrue(self.may(user, "get", "configmaps", name="mine"))
        for verb, resource, more in (("delete", "pods", {}), ("get", "pods", {
                "subresource": "exec"
        }), ("get", "secrets", {}), ("get", "pods", {
                "group": "other"
        }), ("get", "configmaps", {
                "name": "yours"
        }), ("list", "configmaps", {}), ("get", "pods", {
                "namespace": "default"
        }), ("get", "pods", {
                "namespace": ""
        })):
            self.assertFalse(self.may(user, verb, resource, **more), (verb, resource, more))
        self.assertFalse(self.may("ben-" + self.name, "get", "pods"))

    def test_groups_and_service_accounts_are_subjects(self):
        group = "team-" + self.name
        self.give({
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Group",
            "name": group
        }, {
            "apiGroups": [""],
            "resources": ["pods"],
            "verbs": ["list"]
        })
        self.eventually(lambda: self.may("anybody", "list", "pods", groups=[group]))
        self.assertFalse(self.may("anybody", "list", "pods", groups=["other"]))
        self.name += "a"
        self.give({
            "kind": "ServiceAccount",
            "name": "worker",
            "namespace": self.namespace
        }, {
            "apiGroups": [""],
            "resources": ["pods"],
            "verbs": ["watch"]
        })
        self.eventually(lambda: self.may(f"system:serviceaccount:{self.namespace}:worker", "watch", "pods"))
        self.assertFalse(self.may("worker", "watch", "pods"))


if __name__ == "__main__":
    unittest.main()
