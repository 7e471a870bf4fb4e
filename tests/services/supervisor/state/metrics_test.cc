#include "services/supervisor/state/metrics.h"

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class MetricsTest : public testing::Test {
 protected:
  std::string Page() const { return prometheus::TextSerializer().Serialize(registry_->Collect()); }

  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  Metrics metrics_{registry_};
};

TEST_F(MetricsTest, LeadsFromItsFirstTermOn) {
  EXPECT_THAT(Page(), HasSubstr("adaptdl_supervisor_leader 0\n"));
  metrics_.SetLeaderTerm(7);
  EXPECT_THAT(Page(), AllOf(HasSubstr("adaptdl_supervisor_leader 1\n"),
                            HasSubstr("adaptdl_supervisor_leader_term 7\n")));
}

TEST_F(MetricsTest, AReasonThatNobodyHasAnyMoreCountsNobody) {
  EXPECT_THAT(Page(), HasSubstr("adaptdl_supervisor_waiting_jobs{reason=\"Queued\"} 0\n"));
  metrics_.SetWaiting({{"Queued", 2}, {"WaitingForRoom", 1}});
  EXPECT_THAT(Page(), HasSubstr("adaptdl_supervisor_waiting_jobs{reason=\"WaitingForRoom\"} 1\n"));
  metrics_.SetWaiting({{"Queued", 3}});
  EXPECT_THAT(Page(), AllOf(HasSubstr("adaptdl_supervisor_waiting_jobs{reason=\"Queued\"} 3\n"),
                            HasSubstr("adaptdl_supervisor_waiting_jobs{reason=\"WaitingForRoom\"} 0\n")));
}

TEST_F(MetricsTest, ReasonsHaveABound) {
  std::map<std::string, int> reasons;
  for (int i = 10; i < 60; ++i) reasons[absl::StrCat("R", i)] = 1;
  metrics_.SetWaiting(reasons);
  EXPECT_THAT(Page(), AllOf(HasSubstr("{reason=\"R40\"} 1\n"), Not(HasSubstr("{reason=\"R41\"}")),
                            HasSubstr("{reason=\"Other\"} 19\n")));
  metrics_.SetWaiting({});
  EXPECT_THAT(Page(), HasSubstr("{reason=\"Other\"} 0\n"));
}

}  // namespace
}  // namespace adaptdl::supervisor
