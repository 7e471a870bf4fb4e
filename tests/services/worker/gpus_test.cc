#include "services/worker/gpus.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kA100[] = "NVIDIA A100-SXM4-40GB";
constexpr char kT4[] = "Tesla T4";

GpuDevice Whole(int index, const std::string& uuid, const std::string& type = kA100) {
  return {.uuid = uuid, .type = type, .gpu = uuid, .index = index};
}

GpuDevice Slice(int index, const std::string& gpu, const std::string& uuid) {
  return {.uuid = uuid, .type = std::string(kA100) + " MIG 1g.5gb", .gpu = gpu, .index = index};
}

std::vector<std::string> NamesIn(const GpuInventory& inventory) {
  std::vector<std::string> names;
  for (const GpuDevice& device : inventory.devices) names.push_back(device.uuid);
  return names;
}

class GpusTest : public testing::Test {
 protected:
  std::vector<std::string> Visible(const char* visible) {
    inventory_ = SelectGpus(found_, visible, "");
    return NamesIn(inventory_);
  }

  FoundGpus found_ = {.devices = {Whole(0, "GPU-aa11"), Whole(1, "GPU-aa22"), Whole(2, "GPU-bb33")},
                      .problems = {}};
  GpuInventory inventory_;
};

TEST_F(GpusTest, OffersAllByName) {
  EXPECT_THAT(Visible(nullptr), ElementsAre("GPU-aa11", "GPU-aa22", "GPU-bb33"));
  EXPECT_EQ(inventory_.type, kA100);
  EXPECT_THAT(inventory_.warnings, IsEmpty());
}

TEST_F(GpusTest, ReadsTheVisibleOnesAsCudaDoes) {
  EXPECT_THAT(Visible("2,0"), ElementsAre("GPU-bb33", "GPU-aa11"));
  EXPECT_THAT(Visible("GPU-aa22"), ElementsAre("GPU-aa22"));
  EXPECT_THAT(Visible("GPU-b, 1"), ElementsAre("GPU-bb33", "GPU-aa22"));
  EXPECT_THAT(Visible("0,0,GPU-aa11"), ElementsAre("GPU-aa11"));
  EXPECT_THAT(Visible("1,-1,0"), ElementsAre("GPU-aa22"));
  EXPECT_THAT(Visible("NoDevFiles"), IsEmpty());
  EXPECT_THAT(Visible(""), IsEmpty());
  EXPECT_THAT(inventory_.warnings, IsEmpty());
  EXPECT_EQ(inventory_.type, "");
}

TEST_F(GpusTest, AnEntryThatNamesNoGpuEndsTheListAndIsToldOf) {
  for (const std::string wrong : {"7", "GPU-cc", "GPU-", "nvidia0", "GPU-aa", "MIG-1", "-2", "1x"}) {
    EXPECT_THAT(Visible(("2," + wrong + ",0").c_str()), ElementsAre("GPU-bb33")) << wrong;
    ASSERT_EQ(inventory_.warnings.size(), 1u) << wrong;
    EXPECT_THAT(inventory_.warnings[0], HasSubstr("\"" + wrong + "\""));
  }
}

TEST_F(GpusTest, AWholeNameIsNotAmbiguousThoughOthersBeginWithIt) {
  found_.devices.push_back(Whole(3, "GPU-aa110"));
  EXPECT_THAT(Visible("GPU-aa11"), ElementsAre("GPU-aa11"));
}

TEST_F(GpusTest, SlicesAreDevicesOfTheirOwn) {
  found_.devices = {Slice(0, "GPU-aa11", "MIG-1"), Slice(0, "GPU-aa11", "MIG-2"),
                    Slice(1, "GPU-aa22", "MIG-3")};
  EXPECT_THAT(Visible(nullptr), ElementsAre("MIG-1", "MIG-2", "MIG-3"));
  EXPECT_EQ(inventory_.type, "NVIDIA A100-SXM4-40GB MIG 1g.5gb");
  EXPECT_THAT(Visible("MIG-3,MIG-1"), ElementsAre("MIG-3", "MIG-1"));
  // A GPU stands for all that it was divided into.
  EXPECT_THAT(Visible("0"), ElementsAre("MIG-1", "MIG-2"));
  EXPECT_THAT(Visible("GPU-aa22"), ElementsAre("MIG-3"));
}

TEST_F(GpusTest, OfSeveralTypesTheMostFrequentIsOfferedAndTheOthersAreNamed) {
  found_.devices = {Whole(0, "GPU-t", kT4), Whole(1, "GPU-a"), Whole(2, "GPU-b")};
  EXPECT_THAT(Visible(nullptr), ElementsAre("GPU-a", "GPU-b"));
  EXPECT_EQ(inventory_.type, kA100);
  ASSERT_EQ(inventory_.warnings.size(), 1u);
  EXPECT_THAT(inventory_.warnings[0], HasSubstr("GPU-t (Tesla T4) is not offered"));
  // What is not visible does not count.
  EXPECT_THAT(Visible("0,1"), ElementsAre("GPU-t"));
}

TEST_F(GpusTest, TheOperatorChoosesTheTypeOrGivesItAnotherName) {
  found_.devices = {Whole(0, "GPU-t", kT4), Whole(1, "GPU-a"), Whole(2, "GPU-b")};
  const GpuInventory chosen = SelectGpus(found_, nullptr, kT4);
  EXPECT_THAT(NamesIn(chosen), ElementsAre("GPU-t"));
  EXPECT_EQ(chosen.type, kT4);
  const GpuInventory named = SelectGpus(found_, nullptr, "ours");
  EXPECT_THAT(NamesIn(named), ElementsAre("GPU-t", "GPU-a", "GPU-b"));
  EXPECT_EQ(named.type, "ours");
  EXPECT_THAT(named.warnings, IsEmpty());
}

TEST_F(GpusTest, KnowsWhatEarlierRecordsCallADevice) {
  Visible("GPU-b,1");
  EXPECT_THAT(inventory_.other_names.at("0"), ElementsAre("GPU-aa11"));
  EXPECT_THAT(inventory_.other_names.at("1"), ElementsAre("GPU-aa22"));
  EXPECT_THAT(inventory_.other_names.at("GPU-b"), ElementsAre("GPU-bb33"));
}

TEST(DeclareGpusTest, NamesThemByNumber) {
  const GpuInventory declared = DeclareGpus(2, "Fake 9000");
  EXPECT_THAT(NamesIn(declared), ElementsAre("0", "1"));
  EXPECT_EQ(declared.type, "Fake 9000");
}

}  // namespace
}  // namespace adaptdl::worker
