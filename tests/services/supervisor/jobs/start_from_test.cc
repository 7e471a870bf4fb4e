// Jobs that begin with another one's checkpoint.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/supervisor/managers_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::HasSubstr;

class StartFromTest : public ManagersTest {
 protected:
  void SetUp() override {
    ManagersTest::SetUp();
    ASSERT_TRUE(AddNode("n1").ok());
    parent_ = Submit("parent").value_or(v1::Job());
  }
  absl::StatusOr<v1::Job> SubmitChild(const std::string& name_space, const std::string& uid = "") {
    v1::SubmitJobRequest request;
    request.set_request_id(NextRequest());
    request.mutable_job()->set_namespace_(name_space);
    request.mutable_job()->set_name("child");
    request.mutable_job()->mutable_spec()->mutable_template_()->add_command("train");
    request.mutable_job()->mutable_spec()->mutable_start_from()->set_job("parent");
    request.mutable_job()->mutable_spec()->mutable_start_from()->set_job_uid(uid);
    const auto response = cluster_->jobs()->SubmitJob(std::move(request), "");
    if (!response.ok()) return response.status();
    return response->job();
  }

  v1::Job parent_;
};

TEST_F(StartFromTest, TheOtherJobIsFoundAtSubmissionAndToldToItsNodes) {
  const auto child = SubmitChild("default", "forged");
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(child->spec().start_from().job_uid(), parent_.uid());
  ASSERT_TRUE(Allocate(*child, {"n1"}).ok());
  ASSERT_EQ(launcher_.launches.size(), 1u);
  EXPECT_EQ(launcher_.launches[0].second.start_from().job(), "parent");
  EXPECT_EQ(launcher_.launches[0].second.start_from().job_uid(), parent_.uid());
}

TEST_F(StartFromTest, AJobOfAnotherNamespaceIsNone) {
  const auto child = SubmitChild("other");
  EXPECT_EQ(child.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(child.status().message()),
              HasSubstr("spec.start_from.job: there is no job \"parent\" in namespace \"other\""));
}

}  // namespace
}  // namespace adaptdl::supervisor
