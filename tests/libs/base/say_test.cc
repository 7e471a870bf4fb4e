#include "libs/base/say.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl {
namespace {

std::vector<Said>& Heard() {
  static auto* const heard = new std::vector<Said>();
  return *heard;
}

class SayTest : public testing::Test {
 protected:
  void SetUp() override {
    Heard().clear();
    SetListener([](const Said& said) { Heard().push_back(said); });
  }
  void TearDown() override {
    SetListener(nullptr);
    SetSpeaker(-1);
  }
};

TEST_F(SayTest, TellsTheListenerWhoSaysWhat) {
  Say(Severity::kInfo, "one");
  SetSpeaker(2);
  Say(Severity::kError, "two");
  PassOn({Severity::kNotice, "elsewhere", "three"});
  ASSERT_EQ(Heard().size(), 3u);
  EXPECT_EQ(Heard()[0].part, "base");
  EXPECT_EQ(Heard()[0].text, "one");
  EXPECT_EQ(Heard()[0].rank, -1);
  EXPECT_EQ(Heard()[1].severity, Severity::kError);
  EXPECT_EQ(Heard()[1].rank, 2);
  EXPECT_EQ(Heard()[2].part, "elsewhere");
  EXPECT_EQ(Heard()[2].rank, 2);
}

TEST_F(SayTest, GoesToStandardErrorWhereNobodyListens) {
  SetListener(nullptr);
  testing::internal::CaptureStderr();
  Say(Severity::kNotice, "one");
  Say(Severity::kWarning, "two");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "adaptdl: one\nadaptdl: WARNING: two\n");
  EXPECT_THAT(Heard(), testing::IsEmpty());
}

}  // namespace
}  // namespace adaptdl
