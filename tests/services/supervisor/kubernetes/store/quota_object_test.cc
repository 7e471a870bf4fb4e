#include "services/supervisor/kubernetes/store/quota_object.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

TEST(QuotaObjectTest, IsReadAsItWasWritten) {
  v1::NamespaceQuota quota;
  quota.set_namespace_("team");
  quota.set_gpus(8);
  quota.set_weight(2.5);
  quota.set_jobs(3);
  quota.set_submissions_per_minute(4);
  const absl::StatusOr<v1::NamespaceQuota> read = ReadQuota(QuotaObject(quota));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), quota.SerializeAsString());
}

TEST(QuotaObjectTest, WhatIsLeftOutIsNoBound) {
  const auto read = ReadQuota(*kube::ParseJson(R"({"metadata": {"namespace": "team"}, "spec": {}})"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->weight(), 1);
  EXPECT_EQ(read->gpus(), 0);
}

TEST(QuotaObjectTest, WhatMakesNoSenseIsRefused) {
  for (const char* spec : {R"({"gpus": -1})", R"({"weight": 0})", R"({"weight": "heavy"})",
                           R"({"jobs": 1e9})", R"({"submissionsPerMinute": 4294967297})", "7"}) {
    const auto object =
        kube::ParseJson(std::string(R"({"metadata": {"namespace": "team"}, "spec": )") + spec + "}");
    EXPECT_EQ(ReadQuota(*object).status().code(), absl::StatusCode::kInvalidArgument) << spec;
  }
}

}  // namespace
}  // namespace adaptdl::supervisor
