#include "services/worker/nvml.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/worker/fake_gpus.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class NvmlTest : public testing::Test {
 protected:
  NvmlTest() { setenv("FAKE_NVML_FILE", gpus_.path().c_str(), /*overwrite=*/1); }
  ~NvmlTest() override { unsetenv("FAKE_NVML_FILE"); }

  std::unique_ptr<Nvml> Open(const std::string& lines) {
    gpus_.Set(lines);
    absl::StatusOr<std::unique_ptr<Nvml>> nvml = Nvml::Open(kFakeNvml);
    EXPECT_TRUE(nvml.ok()) << nvml.status();
    return nvml.ok() ? *std::move(nvml) : nullptr;
  }

  FakeGpus gpus_;
};

TEST_F(NvmlTest, FindsGpusAndSlices) {
  const auto nvml = Open(
      "gpu GPU-a 0 0 0 Tesla T4\n"
      "gpu GPU-b 0 0 0 NVIDIA A100-SXM4-40GB\n"
      "mig MIG-1 NVIDIA A100-SXM4-40GB MIG 1g.5gb\n"
      "mig MIG-2 NVIDIA A100-SXM4-40GB MIG 2g.10gb\n");
  ASSERT_NE(nvml, nullptr);
  const std::vector<GpuDevice>& devices = nvml->found().devices;
  ASSERT_THAT(devices, SizeIs(3));
  EXPECT_EQ(devices[0].uuid, "GPU-a");
  EXPECT_EQ(devices[0].gpu, "GPU-a");
  EXPECT_EQ(devices[0].type, "Tesla T4");
  EXPECT_EQ(devices[0].index, 0);
  EXPECT_EQ(devices[2].uuid, "MIG-2");
  EXPECT_EQ(devices[2].gpu, "GPU-b");
  EXPECT_EQ(devices[2].type, "NVIDIA A100-SXM4-40GB MIG 2g.10gb");
  EXPECT_EQ(devices[2].index, 1);
  EXPECT_THAT(nvml->found().problems, IsEmpty());
}

TEST_F(NvmlTest, TellsOfAGpuThatIsLostAlready) {
  const auto nvml = Open("gpu GPU-a 0 0 0 Tesla T4\ngpu GPU-b 15 0 0 Tesla T4\ngpu GPU-c 0 0 0 Tesla T4\n");
  ASSERT_NE(nvml, nullptr);
  EXPECT_THAT(nvml->found().devices, SizeIs(2));
  EXPECT_THAT(nvml->found().problems, ElementsAre(HasSubstr("GPU 1: GPU is lost (NVML 15)")));
}

TEST_F(NvmlTest, SamplesEachGpuForItself) {
  const auto nvml = Open("gpu GPU-a 0 3 0 Tesla T4\ngpu GPU-b 0 - 0 Tesla T4\n");
  ASSERT_NE(nvml, nullptr);
  EXPECT_EQ(nvml->Sample("GPU-a").uncorrected_errors, 3u);
  EXPECT_EQ(nvml->Sample("GPU-a").lost, "");
  EXPECT_EQ(nvml->Sample("GPU-a").slowdown, "");
  EXPECT_FALSE(nvml->Sample("GPU-b").uncorrected_errors.has_value());
  for (const std::string code : {"15", "16"}) {
    gpus_.Set("gpu GPU-a 0 4 60 Tesla T4\ngpu GPU-b " + code + " - 0 Tesla T4\n");
    EXPECT_THAT(nvml->Sample("GPU-b").lost, HasSubstr("(NVML " + code + ")"));
  }
  EXPECT_EQ(nvml->Sample("GPU-a").uncorrected_errors, 4u);
  EXPECT_EQ(nvml->Sample("GPU-a").slowdown, "hardware thermal slowdown, software thermal slowdown");
  // An idle GPU, a power cap and other errors are no sickness.
  gpus_.Set("gpu GPU-a 0 4 5 Tesla T4\ngpu GPU-b 999 - 0 Tesla T4\n");
  EXPECT_EQ(nvml->Sample("GPU-a").slowdown, "");
  EXPECT_EQ(nvml->Sample("GPU-b").lost, "");
}

TEST_F(NvmlTest, SaysHowMuchOfAGpuIsInUse) {
  const auto nvml = Open("gpu GPU-a 0 3 0 Tesla T4\nuse 85 1000 4000 71 62500\ngpu GPU-b 0 - 0 Tesla T4\n");
  ASSERT_NE(nvml, nullptr);
  const GpuFigures figures = nvml->Sample("GPU-a").figures;
  EXPECT_EQ(figures.utilization, 0.85);
  EXPECT_EQ(figures.memory_bytes, 1000);
  EXPECT_EQ(figures.memory_total_bytes, 4000);
  EXPECT_EQ(figures.temperature_celsius, 71);
  EXPECT_EQ(figures.power_watts, 62.5);
  const GpuFigures silent = nvml->Sample("GPU-b").figures;
  EXPECT_FALSE(silent.utilization.has_value());
  EXPECT_FALSE(silent.temperature_celsius.has_value());
  EXPECT_FALSE(silent.power_watts.has_value());
  EXPECT_EQ(silent.memory_total_bytes, 0);
}

TEST_F(NvmlTest, SaysWhyThereIsNone) {
  EXPECT_TRUE(absl::IsNotFound(Nvml::Open("/nowhere/libnvidia-ml.so.1").status()));
  const absl::Status status = Nvml::Open(kFakeNvml).status();  // there is no file
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Driver Not Loaded (NVML 9)"));
}

}  // namespace
}  // namespace adaptdl::worker
