// The managers of a supervisor, beside the double of an API server with the types of AdaptDL's objects.

#ifndef ADAPTDL_TESTS_SERVICES_SUPERVISOR_KUBERNETES_KUBE_MANAGERS_FIXTURE_H_
#define ADAPTDL_TESTS_SERVICES_SUPERVISOR_KUBERNETES_KUBE_MANAGERS_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "libs/kube/client/client.h"
#include "libs/kubejobs/names.h"
#include "tests/kube/double.h"
#include "tests/kube/no_credentials.h"
#include "tests/services/supervisor/managers_fixture.h"

namespace adaptdl::supervisor {

class KubeManagersTest : public ManagersTest {
 protected:
  static constexpr absl::Duration kPatience = absl::Seconds(20);

  KubeManagersTest() {
    static const kube::ResourceType kCrds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                             "CustomResourceDefinition", false};
    const kube::Json any = {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}};
    const kube::Json schema = {{"type", "object"}, {"properties", {{"spec", any}, {"status", any}}}};
    const kube::Json crd = {
        {"metadata", {{"name", std::string(kubejobs::kJobPlural) + "." + kubejobs::kGroup}}},
        {"spec",
         {{"group", kubejobs::kGroup},
          {"scope", "Namespaced"},
          {"names", {{"plural", kubejobs::kJobPlural}, {"kind", kubejobs::kJobKind}}},
          {"versions",
           {{{"name", kubejobs::kVersion},
             {"served", true},
             {"storage", true},
             {"subresources", {{"status", kube::Json::object()}}},
             {"schema", {{"openAPIV3Schema", schema}}}}}}}}};
    EXPECT_TRUE(client_.Create(kube::Collection(kCrds), crd, {.field_manager = "test"}).ok());
  }

  // Until it holds; the other side is another process.
  void Await(const std::string& what, const std::function<bool()>& holds) {
    for (const absl::Time end = absl::Now() + kPatience; !holds(); absl::SleepFor(absl::Milliseconds(5))) {
      ASSERT_LT(absl::Now(), end) << what;
    }
  }

  kube::ApiServerDouble server_;
  std::unique_ptr<kube::Session> session_ =
      kube::Session::Create({.server = server_.url(), .credentials = std::make_unique<kube::NoCredentials>()},
                            {.burst = 100'000})
          .value();
  kube::Client client_{session_.get()};
  const kube::ChangeOptions by_ = {.field_manager = "test"};
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_TESTS_SERVICES_SUPERVISOR_KUBERNETES_KUBE_MANAGERS_FIXTURE_H_
