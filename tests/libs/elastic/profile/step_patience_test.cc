#include "libs/elastic/profile/step_patience.h"

#include "gtest/gtest.h"

namespace adaptdl::elastic {
namespace {

TEST(StepPatienceTest, IsTenMediansOfTheLastSteps) {
  StepPatience patience(10);
  for (int i = 0; i < 4; ++i) patience.Add(2);
  EXPECT_EQ(patience.seconds(), 0);
  patience.Add(300);
  EXPECT_EQ(patience.seconds(), 20) << "one long step does not matter";
  for (int i = 0; i < 40; ++i) patience.Add(0.1);
  EXPECT_EQ(patience.seconds(), 10);
  for (int i = 0; i < 60; ++i) patience.Add(5);
  EXPECT_EQ(patience.seconds(), 50) << "those of long ago are forgotten";
}

}  // namespace
}  // namespace adaptdl::elastic
