#include "services/supervisor/costs/holders.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

v1::Resources Amounts(int64_t cpu, int gpus, int64_t memory = 0) {
  v1::Resources resources;
  resources.set_cpu_millis(cpu);
  resources.set_gpus(gpus);
  resources.set_memory_bytes(memory);
  return resources;
}

Residents Job(const std::string& name, const v1::Resources& need, int replicas) {
  return {{"team", name, "uid-" + name}, need, replicas};
}

std::vector<double> Parts(const v1::Resources& capacity, const std::vector<Residents>& residents) {
  std::vector<double> parts;
  for (const Holder& holder : PartsOf(capacity, residents)) parts.push_back(holder.part);
  return parts;
}

TEST(HoldersTest, TheScarcestResourceCounts) {
  EXPECT_EQ(Parts(Amounts(8000, 1), {Job("a", Amounts(1000, 1), 1)}), std::vector<double>{1});
  EXPECT_EQ(Parts(Amounts(8000, 4), {Job("a", Amounts(1000, 1), 2), Job("b", Amounts(2000, 0), 1)}),
            (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(Parts(Amounts(8000, 0, 100), {Job("a", Amounts(1000, 0, 50), 1)}), std::vector<double>{0.5});
}

TEST(HoldersTest, DevicesOfOtherKindsCount) {
  v1::Resources capacity = Amounts(8000, 0);
  (*capacity.mutable_extended())["example.com/fpga"] = 4;
  v1::Resources need = Amounts(1000, 0);
  (*need.mutable_extended())["example.com/fpga"] = 3;
  EXPECT_EQ(Parts(capacity, {Job("a", need, 1)}), std::vector<double>{0.75});
}

TEST(HoldersTest, NobodyPaysForMoreThanThereIs) {
  // One that takes the GPU, one that takes the cores.
  EXPECT_EQ(Parts(Amounts(4000, 1), {Job("a", Amounts(0, 1), 1), Job("b", Amounts(4000, 0), 1)}),
            (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(Parts(Amounts(1000, 0), {Job("a", Amounts(9000, 0), 3)}), std::vector<double>{1});
  EXPECT_EQ(Parts(Amounts(1000, 0), {Job("a", Amounts(0, 2), 1)}), std::vector<double>{1});
}

TEST(HoldersTest, WhoAsksForNothingSharesWhatIsLeft) {
  EXPECT_EQ(Parts(Amounts(4000, 0), {Job("a", {}, 1), Job("b", {}, 3)}), (std::vector<double>{0.25, 0.75}));
  EXPECT_EQ(Parts(Amounts(4000, 0), {Job("a", Amounts(2000, 0), 1), Job("b", {}, 3)}),
            (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(Parts(Amounts(4000, 0), {Job("a", Amounts(4000, 0), 1), Job("b", {}, 3)}),
            (std::vector<double>{1, 0}));
}

}  // namespace
}  // namespace adaptdl::supervisor
