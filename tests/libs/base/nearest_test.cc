#include "libs/base/nearest.h"

#include <string>

#include "gtest/gtest.h"

namespace adaptdl {
namespace {

TEST(NearestTest, IsTheOneWithTheFewestOtherLetters) {
  EXPECT_EQ(Nearest("maxReplica", {"minReplicas", "maxReplicas"}), "maxReplicas");
  EXPECT_EQ(Nearest("colour", {"minReplicas", "maxReplicas"}), "");
  EXPECT_EQ(Nearest(std::string(1000, 'a'), {std::string(1000, 'a')}), "") << "no name is that long";
}

TEST(NearestTest, AsksForTheNearFlag) {
  const std::vector<absl::string_view> flags = {"--cpus", "--memory", "--min-replicas", "--max-replicas",
                                                "-f"};
  EXPECT_EQ(DidYouMeanFlag("--cpu", flags), "; did you mean --cpus?");
  EXPECT_EQ(DidYouMeanFlag("--cpu=2", flags), "; did you mean --cpus?");
  EXPECT_EQ(DidYouMeanFlag("-cpus", flags), "; did you mean --cpus?");
  EXPECT_EQ(DidYouMeanFlag("--max-replica=4", flags), "; did you mean --max-replicas?");
  EXPECT_EQ(DidYouMeanFlag("--nonsense", flags), "");
  EXPECT_EQ(DidYouMeanFlag("-g", flags), "") << "every letter is near to every other one";
  EXPECT_EQ(DidYouMeanFlag("--", flags), "");
}

TEST(NearestTest, AsksForThoseThatTheNameIsAPartOf) {
  EXPECT_EQ(DidYouMeanFlag("--mem", {"--memory"}), "; did you mean --memory?");
  EXPECT_EQ(DidYouMeanFlag("--replicas", {"--min-replicas", "--max-replicas", "--allowed-replicas"}),
            "; did you mean --min-replicas, --max-replicas or --allowed-replicas?");
  EXPECT_EQ(DidYouMeanFlag("--size", {"--first-size", "--second-size", "--third-size", "--fourth-size"}), "")
      << "too many";
  EXPECT_EQ(DidYouMean("describ", {"delete", "describe"}), "; did you mean describe?");
}

}  // namespace
}  // namespace adaptdl
