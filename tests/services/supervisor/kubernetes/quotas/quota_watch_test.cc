// AdaptDLQuota objects count as they are, whoever writes them.

#include "services/supervisor/kubernetes/quotas/quota_watch.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "services/supervisor/kubernetes/store/object_types.h"
#include "services/supervisor/kubernetes/store/quota_object.h"
#include "tests/services/supervisor/kubernetes/kube_managers_fixture.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const kube::Target kObject = kube::ObjectOf(AdaptDLQuotas(), {"default", kQuotaName});

class QuotaWatchTest : public KubeManagersTest {
 protected:
  QuotaWatchTest() {
    // A schema that lets anything pass.
    const kube::ResourceType crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                     "CustomResourceDefinition", false};
    const Json crd = {{"metadata", {{"name", std::string(kubejobs::kQuotaPlural) + "." + kubejobs::kGroup}}},
                      {"spec",
                       {{"group", kubejobs::kGroup},
                        {"scope", "Namespaced"},
                        {"names", {{"plural", kubejobs::kQuotaPlural}, {"kind", kubejobs::kQuotaKind}}},
                        {"versions",
                         {{{"name", kubejobs::kVersion},
                           {"served", true},
                           {"storage", true},
                           {"schema",
                            {{"openAPIV3Schema",
                              {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}}}}}}}}}}};
    EXPECT_TRUE(client_.Create(kube::Collection(crds), crd, by_).ok());
  }

  void Watch() {
    watch_ = std::make_unique<QuotaWatch>(
        QuotaWatchParts{
            .client = &client_,
            .core = cluster_->core(),
            .seen =
                [this](const std::string& name_space, const std::optional<v1::NamespaceQuota>& quota) {
                  EXPECT_EQ(name_space, "default");
                  seen_ = quota;
                },
            .refuse = [this](const Json& /*object*/, const std::string& why) { refused_.push_back(why); }},
        QuotaWatchOptions());
    ASSERT_TRUE(watch_->AwaitSynced({}));
  }
  void Create(int gpus) {
    v1::NamespaceQuota quota;
    quota.set_namespace_("default");
    quota.set_weight(1);
    quota.set_gpus(gpus);
    ASSERT_TRUE(client_.Create(kube::Collection(AdaptDLQuotas(), "default"), QuotaObject(quota), by_).ok());
  }
  void Patch(const Json& spec) { ASSERT_TRUE(client_.MergePatch(kObject, {{"spec", spec}}, by_).ok()); }
  // -1: there is no quota.
  int Gpus() {
    const auto quotas = cluster_->quotas()->ListQuotas({});
    EXPECT_TRUE(quotas.ok()) << quotas.status();
    return quotas->quotas().empty() ? -1 : quotas->quotas(0).gpus();
  }
  void AwaitGpus(int gpus) {
    Await("another quota", [&] {
      watch_->Step();
      return Gpus() == gpus;
    });
  }

  std::optional<v1::NamespaceQuota> seen_;
  std::vector<std::string> refused_;
  std::unique_ptr<QuotaWatch> watch_;
};

TEST_F(QuotaWatchTest, WhatOthersWriteCountsAtOnce) {
  Create(4);
  Watch();
  EXPECT_EQ(Gpus(), 4);
  Patch({{"gpus", 6}});
  AwaitGpus(6);
  EXPECT_EQ(seen_->gpus(), 6);
  ASSERT_TRUE(client_.Delete(kObject, {}).ok());
  AwaitGpus(-1);
  EXPECT_FALSE(seen_.has_value());
  Create(2);
  AwaitGpus(2);
}

TEST_F(QuotaWatchTest, WhatMakesNoSenseIsRefusedOnceAndTheFormerStays) {
  Create(4);
  Watch();
  Patch({{"gpus", -3}});
  Await("a refusal", [&] {
    watch_->Step();
    return !refused_.empty();
  });
  EXPECT_THAT(refused_, ElementsAre(HasSubstr("spec.gpus")));
  EXPECT_EQ(Gpus(), 4);
  // A change of something else is no news.
  ASSERT_TRUE(client_.MergePatch(kObject, {{"metadata", {{"labels", {{"a", "b"}}}}}}, by_).ok());
  Patch({{"gpus", 5}});
  AwaitGpus(5);
  EXPECT_EQ(refused_.size(), 1u);
  EXPECT_EQ(seen_->gpus(), 5);
}

TEST_F(QuotaWatchTest, OneThatWentWhileNobodyLookedIsNoneAnyMore) {
  v1::SetQuotaRequest request;
  request.set_request_id(NextRequest());
  request.set_namespace_("default");
  request.set_gpus(3);
  ASSERT_TRUE(cluster_->quotas()->SetQuota(request, "").ok());
  EXPECT_EQ(Gpus(), 3);
  Watch();
  EXPECT_EQ(Gpus(), -1);
}

TEST_F(QuotaWatchTest, WhatGoesByFinalizersIsGone) {
  Create(4);
  ASSERT_TRUE(client_.MergePatch(kObject, {{"metadata", {{"finalizers", {"example.com/x"}}}}}, by_).ok());
  Watch();
  ASSERT_TRUE(client_.Delete(kObject, {}).ok());
  AwaitGpus(-1);
}

}  // namespace
}  // namespace adaptdl::supervisor
