#include "services/worker/objects/snapshot.h"

#include <string>

#include "gtest/gtest.h"

namespace adaptdl::worker {
namespace {

TEST(SnapshotTest, NamesSortAsTheySay) {
  EXPECT_EQ(SnapshotName({3, 7}), "00000000000000000003-00000000000000000007");
  EXPECT_LT(SnapshotName({9, 100}), SnapshotName({10, 1}));
  EXPECT_EQ(ParseSnapshotName(SnapshotName({3, 7})), (SnapshotId{3, 7}));
  for (const std::string name : {"", "3-7", "00000000000000000003-0000000000000000000x",
                                 "00000000000000000003", "-0000000000000000003-00000000000000000007"}) {
    EXPECT_EQ(ParseSnapshotName(name), std::nullopt) << name;
  }
}

TEST(SnapshotTest, ReadsTheManifestThatItWrote) {
  const std::vector<SnapshotFile> files = {{"a/b", 3, "00ff"}, {"c", 0, ""}};
  const auto read = ParseManifest(ManifestOf(files));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, files);
}

TEST(SnapshotTest, BelievesNoDamagedManifest) {
  const std::string good = ManifestOf({{"a", 3, "00"}});
  std::string changed = good;
  changed[good.find("3")] = '4';
  for (const std::string& text :
       {std::string(), good.substr(0, good.size() - 1), changed, ManifestOf({{"../a", 3, ""}}),
        ManifestOf({{"/a", 3, ""}}), ManifestOf({{"a", -1, ""}}), ManifestOf({{"a", 1, ""}, {"a", 1, ""}})}) {
    EXPECT_EQ(ParseManifest(text).status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace adaptdl::worker
