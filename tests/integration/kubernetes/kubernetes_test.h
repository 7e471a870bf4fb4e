// What tests of the whole product as an operator share: a double of an API server, which knows our kinds, and a client of it, who may do
// everything. Tests add nodes and the cluster of programs.

#ifndef ADAPTDL_TESTS_INTEGRATION_KUBERNETES_KUBERNETES_TEST_H_
#define ADAPTDL_TESTS_INTEGRATION_KUBERNETES_KUBERNETES_TEST_H_

#include <memory>

#include "gtest/gtest.h"
#include "libs/kube/client/client.h"
#include "libs/kubejobs/names.h"
#include "tests/kube/double.h"
#include "tests/kube/no_credentials.h"
#include "tests/kube/yaml.h"

namespace adaptdl::integration {

inline kube::ResourceType AdaptDLJobs() {
  return {kubejobs::kGroup, kubejobs::kVersion, kubejobs::kJobPlural, kubejobs::kJobKind};
}

class KubernetesTest : public testing::Test {
 protected:
  KubernetesTest() {
    const kube::ResourceType crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                     "CustomResourceDefinition", false};
    for (const char* name : {"adaptdljob", "adaptdlquota"}) {
      const auto made = client_.Create(kube::Collection(crds), kube::ReadCrd(name), by_);
      EXPECT_TRUE(made.ok()) << made.status();
    }
  }

  const kube::ChangeOptions by_ = {.field_manager = "test"};
  kube::ApiServerDouble api_;
  std::unique_ptr<kube::Session> session_ =
      kube::Session::Create({.server = api_.url(), .credentials = std::make_unique<kube::NoCredentials>()})
          .value();
  kube::Client client_{session_.get()};
};

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_KUBERNETES_KUBERNETES_TEST_H_
