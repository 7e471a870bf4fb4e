// Pods as kubelets and the control plane leave them, for tests.

#ifndef ADAPTDL_TESTS_LIBS_KUBEJOBS_PODS_H_
#define ADAPTDL_TESTS_LIBS_KUBEJOBS_PODS_H_

#include <string>

#include "libs/kube/json/json.h"

namespace adaptdl::kubejobs {

// One that waits for its node.
inline kube::Json NewPod() {
  return kube::Json::parse(R"({
    "metadata": {"name": "job-6f1c-2-0", "namespace": "vision",
      "labels": {"adaptdl": "true", "adaptdl/job": "job"},
      "annotations": {"adaptdl/group": "2", "adaptdl/rank": "0", "adaptdl/replicas": "2", "adaptdl/node": "n1"},
      "ownerReferences": [{"kind": "AdaptDLJob", "name": "job", "uid": "6f1c", "controller": true}]},
    "spec": {"containers": [{"name": "main"}]},
    "status": {"phase": "Pending"}})");
}

inline kube::Json RunningPod() {
  kube::Json pod = NewPod();
  pod["spec"]["nodeName"] = "n1";
  pod["status"] = kube::Json::parse(R"({"phase": "Running", "containerStatuses": [
      {"name": "main", "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}]})");
  return pod;
}

inline kube::Json EndedPod(int exit_code, const std::string& reason = "") {
  kube::Json pod = RunningPod();
  pod["status"]["phase"] = exit_code == 0 ? "Succeeded" : "Failed";
  pod["status"]["containerStatuses"][0]["state"] = {{"terminated",
                                                     {{"exitCode", exit_code},
                                                      {"reason", !reason.empty()  ? reason
                                                                 : exit_code == 0 ? "Completed"
                                                                                  : "Error"},
                                                      {"startedAt", "2026-01-02T03:04:05Z"},
                                                      {"finishedAt", "2026-01-02T03:05:05Z"}}}};
  return pod;
}

// Of a kubelet that did not take it, or has thrown it out.
inline kube::Json FailedPod(const std::string& reason, const std::string& message = "") {
  kube::Json pod = NewPod();
  pod["spec"]["nodeName"] = "n1";
  pod["status"] = {{"phase", "Failed"}, {"reason", reason}, {"message", message}};
  return pod;
}

inline kube::Json Deleted(kube::Json pod) {
  pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:05:00Z";
  return pod;
}

inline kube::Json WithCondition(kube::Json pod, const std::string& type, const std::string& status,
                                const std::string& reason) {
  pod["status"]["conditions"].push_back({{"type", type},
                                         {"status", status},
                                         {"reason", reason},
                                         {"message", "some words"},
                                         {"lastTransitionTime", "2026-01-02T03:04:00Z"}});
  return pod;
}

inline kube::Json WaitingPod(const std::string& reason, const std::string& list = "containerStatuses") {
  kube::Json pod = WithCondition(NewPod(), "PodScheduled", "True", "");
  pod["spec"]["nodeName"] = "n1";
  pod["status"][list] = {
      {{"name", "main"}, {"state", {{"waiting", {{"reason", reason}, {"message", "why"}}}}}}};
  return pod;
}

}  // namespace adaptdl::kubejobs

#endif  // ADAPTDL_TESTS_LIBS_KUBEJOBS_PODS_H_
