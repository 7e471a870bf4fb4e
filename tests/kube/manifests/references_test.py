"""What manifests name is there: pods that are selected, ports, accounts, classes, and the services' own addresses."""

import re
import unittest

import manifests

WHOLE = manifests.OPERATOR + manifests.AGENTS
ADDRESS = re.compile(r"^--(?:replica-)?(supervisor|allocator)(?:-address)?=(.*)$")
URL = re.compile(r"^--adaptdl-http-url=http://([a-z-]+)\.adaptdl\.svc:(\d+)$")


# What pods say of themselves once they run (--own-pod).
LEADS = "adaptdl.petuum.com/leads"


def selector_of(item):
    spec = item["spec"]
    selector = {
        "Service": lambda: spec["selector"],
        "PodDisruptionBudget": lambda: spec["selector"]["matchLabels"],
        "NetworkPolicy": lambda: spec["podSelector"]["matchLabels"]
    }[item["kind"]]()
    return {name: value for name, value in selector.items() if name != LEADS}


class ReferencesTest(unittest.TestCase):

    def test_selectors_find_pods(self):
        for folder in WHOLE:
            items = manifests.render(folder)
            labels = [item["spec"]["template"]["metadata"]["labels"] for item in manifests.workloads(items)]
            for item in manifests.of_kind(items, "Service", "PodDisruptionBudget", "NetworkPolicy"):
                with self.subTest(folder=folder, object=manifests.name_of(item)):
                    self.assertTrue(any(manifests.matches(selector_of(item), of_pod) for of_pod in labels))

    def test_workloads_select_their_own_pods_alone(self):
        for folder in WHOLE:
            workloads = manifests.workloads(manifests.render(folder))
            for item in workloads:
                selected = [other["metadata"]["name"] for other in workloads
                            if manifests.matches(item["spec"]["selector"]["matchLabels"],
                                                 other["spec"]["template"]["metadata"]["labels"])]
                self.assertEqual(selected, [item["metadata"]["name"]], folder)

    def test_services_lead_to_ports_of_their_pods(self):
        for folder in WHOLE:
            items = manifests.render(folder)
            for service in manifests.of_kind(items, "Service"):
                for item, _, container in manifests.containers(items):
                    if not manifests.matches(selector_of(service), item["spec"]["template"]["metadata"]["labels"]):
                        continue
                    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
                    for port in service["spec"]["ports"]:
                        self.assertIn(port["targetPort"], ports, (folder, service["metadata"]["name"]))

    def test_the_url_for_programs_is_that_of_a_service_of_the_leader(self):
        items = manifests.render("base")
        [url] = [match for _, _, container in manifests.containers(items)
                 for match in map(URL.match, container["args"]) if match]
        [service] = [item for item in manifests.of_kind(items, "Service") if item["metadata"]["name"] == url.group(1)]
        self.assertEqual(service["spec"]["selector"][LEADS], "true")
        self.assertEqual([port["port"] for port in service["spec"]["ports"]], [int(url.group(2))])

    def test_policies_open_ports_that_are_there(self):
        for folder in WHOLE:
            items = manifests.render(folder)
            ports = {port["containerPort"] for _, _, container in manifests.containers(items)
                     for port in container["ports"]}
            opened = {port["port"] for policy in manifests.of_kind(items, "NetworkPolicy")
                      for rule in policy["spec"]["ingress"] for port in rule.get("ports", ())}
            self.assertEqual(opened, ports, folder)

    def test_addresses_are_those_of_services(self):
        for folder in WHOLE:
            items = manifests.render(folder)
            services = {item["metadata"]["name"]: item for item in manifests.of_kind(items, "Service")}
            found = 0
            for _, _, container in manifests.containers(items):
                for match in filter(None, map(ADDRESS.match, container["args"])):
                    for address in match.group(2).split(","):
                        found += 1
                        self.check_address(items, services, match.group(1), address)
            self.assertGreater(found, 0, folder)

    def check_address(self, items, services, service, address):
        host, _, port = address.partition(":")
        names = host.split(".")
        self.assertIn(int(port), [each["port"] for each in services[f"adaptdl-{service}"]["spec"]["ports"]])
        if len(names) == 1:
            self.assertEqual(host, f"adaptdl-{service}")
            return
        # A pod by its name: the two of the whole installation, of which a small one has the first.
        self.assertEqual(names[1:], [f"adaptdl-{service}", "adaptdl", "svc"])
        self.assertIn(names[0], (f"adaptdl-{service}-0", f"adaptdl-{service}-1"))
        headless = services[f"adaptdl-{service}"]["spec"]
        self.assertEqual((headless["clusterIP"], headless["publishNotReadyAddresses"]), ("None", True))
        [workload] = [item for item in manifests.of_kind(items, "StatefulSet")
                      if item["metadata"]["name"] == f"adaptdl-{service}"]
        self.assertEqual(workload["spec"]["serviceName"], f"adaptdl-{service}")

    def test_claims_and_accounts_are_there(self):
        for folder in WHOLE:
            items = manifests.render(folder)
            names = {manifests.name_of(item) for item in items}
            for item in manifests.workloads(items):
                pod = item["spec"]["template"]["spec"]
                wanted = {f'PersistentVolumeClaim/{volume["persistentVolumeClaim"]["claimName"]}'
                          for volume in pod["volumes"] if "persistentVolumeClaim" in volume}
                wanted |= {f'ServiceAccount/{pod["serviceAccountName"]}'} if "serviceAccountName" in pod else set()
                wanted |= {f'PriorityClass/{pod["priorityClassName"]}'} if "priorityClassName" in pod else set()
                if item["kind"] == "StatefulSet":
                    wanted.add(f'Service/{item["spec"]["serviceName"]}')
                self.assertLessEqual(wanted, names, (folder, manifests.name_of(item)))

    def test_tokens_are_mounted_where_roles_are_bound(self):
        for folder in WHOLE:
            items = manifests.render(folder)
            bound = {subject["name"] for binding in manifests.of_kind(items, "RoleBinding", "ClusterRoleBinding")
                     for subject in binding["subjects"]}
            for item in manifests.workloads(items):
                pod = item["spec"]["template"]["spec"]
                self.assertIs(pod["automountServiceAccountToken"], pod.get("serviceAccountName") in bound,
                              (folder, manifests.name_of(item)))

    def test_bindings_are_complete(self):
        items = manifests.render("overlays/eks")
        names = {manifests.name_of(item) for item in items}
        bindings = manifests.of_kind(items, "RoleBinding", "ClusterRoleBinding")
        self.assertTrue(bindings)
        for binding in bindings:
            self.assertIn(f'{binding["roleRef"]["kind"]}/{binding["roleRef"]["name"]}', names)
            for subject in binding["subjects"]:
                self.assertIn(f'{subject["kind"]}/{subject["name"]}', names)
                self.assertEqual(subject["namespace"], "adaptdl")

    def test_roles_name_resources_exactly(self):
        for folder in ("base", "autoscaler", "user"):
            for role in manifests.of_kind(manifests.render(folder), "Role", "ClusterRole"):
                for rule in role["rules"]:
                    for field in ("apiGroups", "resources", "verbs"):
                        self.assertNotIn("*", rule[field], manifests.name_of(role))

    def test_users_role_is_there(self):
        [binding] = manifests.of_kind(manifests.render("user"), "RoleBinding")
        self.assertIn(f'ClusterRole/{binding["roleRef"]["name"]}', map(manifests.name_of, manifests.render("base")))

    def test_webhook_reaches_the_supervisor(self):
        items = manifests.render("base")
        [configuration] = manifests.of_kind(items, "ValidatingWebhookConfiguration")
        [hook] = configuration["webhooks"]
        service = hook["clientConfig"]["service"]
        [found] = [item for item in manifests.of_kind(items, "Service") if item["metadata"]["name"] == service["name"]]
        self.assertEqual(found["metadata"]["namespace"], service["namespace"])
        self.assertEqual([port["port"] for port in found["spec"]["ports"]], [service["port"]])
        self.assertEqual((hook["failurePolicy"], service["path"]), ("Fail", "/validate"))
        # Deletions and statuses are never held up.
        [rule] = hook["rules"]
        self.assertEqual((rule["resources"], rule["operations"]), (["adaptdljobs"], ["CREATE", "UPDATE"]))

    def test_monitors_find_the_services(self):
        items = manifests.render("monitoring")
        [monitor] = manifests.of_kind(items, "ServiceMonitor")
        [service] = manifests.of_kind(items, "Service")
        self.assertTrue(manifests.matches(monitor["spec"]["selector"]["matchLabels"], service["metadata"]["labels"]))
        ports = [port["name"] for port in service["spec"]["ports"]]
        self.assertEqual([endpoint["port"] for endpoint in monitor["spec"]["endpoints"]], ports)
        for item, _, container in manifests.containers(manifests.render("overlays/eks")):
            self.assertTrue(manifests.matches(service["spec"]["selector"], item["spec"]["template"]["metadata"]["labels"]))
            self.assertIn({"name": "metrics", "containerPort": 7200}, container["ports"])


if __name__ == "__main__":
    unittest.main()
