#include "libs/elastic/job/replica_device.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/device/guarded_device.h"

namespace adaptdl::elastic {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ReplicaDeviceTest : public testing::Test {
 protected:
  absl::StatusOr<ReplicaDevice> Choose(const std::string& backend, int num_gpus = -1) {
    Environment environment;
    environment.num_gpus = num_gpus;
    return ChooseDevice(environment, backend,
                        {.count = [this] { return count_; },
                         .open = [this](int) -> absl::StatusOr<device::Device*> { return &device_; },
                         .nccl_version = [this] { return nccl_; }});
  }

  device::GuardedDevice device_;
  absl::StatusOr<int> count_ = 2;
  absl::StatusOr<std::string> nccl_ = "2.27.3";
};

TEST_F(ReplicaDeviceTest, AGpuIsUsedOverNcclWhereThereAreBoth) {
  for (const std::string backend : {"", "nccl"}) {
    const auto chosen = Choose(backend);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_EQ(chosen->device, &device_);
    EXPECT_TRUE(chosen->nccl);
    EXPECT_THAT(chosen->report, AllOf(HasSubstr("2 GPUs"), HasSubstr("guarded"), HasSubstr("NCCL 2.27.3")));
  }
}

TEST_F(ReplicaDeviceTest, GlooGoesByMainMemory) {
  const auto chosen = Choose("gloo");
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->device, &device_);
  EXPECT_FALSE(chosen->nccl);
  EXPECT_THAT(chosen->report, HasSubstr("main memory"));
}

TEST_F(ReplicaDeviceTest, WithoutNcclItIsMainMemoryUnlessNcclWasAskedFor) {
  nccl_ = absl::FailedPreconditionError("no libnccl.so.2");
  const auto chosen = Choose("");
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_FALSE(chosen->nccl);
  EXPECT_THAT(chosen->report, HasSubstr("no libnccl.so.2"));
  EXPECT_THAT(std::string(Choose("nccl").status().message()), HasSubstr("no libnccl.so.2"));
}

TEST_F(ReplicaDeviceTest, WithoutAGpuItIsMainMemoryUnlessOneWasAskedFor) {
  for (const absl::StatusOr<int>& none :
       {absl::StatusOr<int>(0), absl::StatusOr<int>(absl::FailedPreconditionError("no driver"))}) {
    count_ = none;
    const std::string why = none.ok() ? "CUDA_VISIBLE_DEVICES" : "no driver";
    for (const int told : {-1, 0}) {
      const auto chosen = Choose("", told);
      ASSERT_TRUE(chosen.ok()) << chosen.status();
      EXPECT_EQ(chosen->device, nullptr);
      EXPECT_EQ(chosen->report, "");
    }
    EXPECT_THAT(std::string(Choose("nccl").status().message()),
                AllOf(HasSubstr("needs a GPU"), HasSubstr(why)));
    EXPECT_THAT(std::string(Choose("gloo", 1).status().message()),
                AllOf(HasSubstr("given 1 GPU"), HasSubstr(why)));
    EXPECT_THAT(std::string(Choose("", 2).status().message()), HasSubstr("given 2 GPUs"));
  }
}

}  // namespace
}  // namespace adaptdl::elastic
