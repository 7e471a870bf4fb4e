// What is written in AdaptDLQuota objects counts for the real supervisor, and what it is told by calls is written there.

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "adaptdl/v1/quota_service.grpc.pb.h"
#include "gtest/gtest.h"
#include "libs/kube/client/client.h"
#include "libs/kubejobs/names.h"
#include "libs/rpc/channel.h"
#include "tests/integration/kubernetes/kubernetes_test.h"
#include "tests/integration/test_cluster.h"
#include "tests/kube/double.h"

namespace adaptdl::integration {
namespace {

using kube::Json;

constexpr absl::Duration kQuotaPatience = absl::Seconds(30);
const kube::ResourceType kQuotas = {kubejobs::kGroup, kubejobs::kVersion, kubejobs::kQuotaPlural,
                                    kubejobs::kQuotaKind};

class KubernetesQuotasTest : public KubernetesTest {
 protected:
  void SetUp() override {
    const absl::Status started = cluster_.Start();
    ASSERT_TRUE(started.ok()) << started;
    quotas_ = v1::QuotaService::NewStub(
        rpc::CreateChannel(cluster_.supervisor_address(), cluster_.Security("supervisor")));
  }

  // -1: there is no quota.
  int Gpus() {
    grpc::ClientContext context;
    rpc::SetTimeout(&context, kQuotaPatience);
    v1::ListQuotasResponse response;
    const grpc::Status status = quotas_->ListQuotas(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.quotas().empty() ? -1 : response.quotas(0).gpus();
  }
  void AwaitGpus(int gpus) {
    const absl::Time deadline = absl::Now() + kQuotaPatience;
    while (Gpus() != gpus) {
      ASSERT_LT(absl::Now(), deadline);
      absl::SleepFor(absl::Milliseconds(20));  // One client may not call all the time.
    }
  }

  const kube::Target object_ = kube::ObjectOf(kQuotas, {"default", "quota"});
  TestCluster cluster_{{.workers = 0,
                        .allocator = false,
                        .kubernetes = api_.url(),
                        .supervisor_flags = {"--client-calls-per-second", "0"}}};
  std::unique_ptr<v1::QuotaService::Stub> quotas_;
};

TEST_F(KubernetesQuotasTest, EditsCountAtOnceWhoeverMakesThem) {
  const Json quota = {{"apiVersion", kubejobs::kApiVersion},
                      {"kind", kubejobs::kQuotaKind},
                      {"metadata", {{"name", "quota"}}},
                      {"spec", {{"gpus", 4}}}};
  ASSERT_TRUE(client_.Create(kube::Collection(kQuotas, "default"), quota, by_).ok());
  AwaitGpus(4);
  v1::SetQuotaRequest request;
  request.set_request_id("a-request-of-this-test");
  request.set_namespace_("default");
  request.set_gpus(6);
  v1::SetQuotaResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(quotas_->SetQuota(&context, request, &response).ok());
  EXPECT_EQ(kube::IntegerAt(*client_.Get(object_), {"spec", "gpus"}), 6);
  ASSERT_TRUE(client_.MergePatch(object_, {{"spec", {{"gpus", 8}}}}, by_).ok());
  AwaitGpus(8);
  EXPECT_EQ(kube::IntegerAt(*client_.Get(object_), {"spec", "gpus"}), 8) << "it is not written back";
  ASSERT_TRUE(client_.Delete(object_, {}).ok());
  AwaitGpus(-1);
}

}  // namespace
}  // namespace adaptdl::integration
