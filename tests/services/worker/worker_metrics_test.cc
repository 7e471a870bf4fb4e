#include "services/worker/worker_metrics.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"

namespace adaptdl::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(WorkerMetricsTest, AGpuThatDoesNotAnswerIsNotShownAnyMore) {
  prometheus::Registry registry;
  WorkerMetrics metrics(&registry);
  const auto page = [&] { return prometheus::TextSerializer().Serialize(registry.Collect()); };
  MachineFigures figures;
  figures.processors = 8;
  figures.busy_processors = 2.5;
  figures.memory = {.used_bytes = 1, .total_bytes = 2};
  figures.gpus = {{.index = 0, .uuid = "GPU-a", .figures = {.utilization = 0.5, .temperature_celsius = 71}},
                  {.index = 1, .uuid = "GPU-b", .figures = {.power_watts = 80}}};
  metrics.UpdateMachine(figures);
  EXPECT_THAT(page(), AllOf(HasSubstr("adaptdl_node_cpus 8\n"), HasSubstr("adaptdl_node_busy_cpus 2.5\n"),
                            HasSubstr("adaptdl_node_used_memory_bytes 1\n"),
                            HasSubstr("adaptdl_node_memory_bytes 2\n"),
                            HasSubstr("adaptdl_gpu_utilization_ratio{gpu=\"GPU-a\",index=\"0\"} 0.5\n"),
                            HasSubstr("adaptdl_gpu_temperature_celsius{gpu=\"GPU-a\",index=\"0\"} 71\n"),
                            HasSubstr("adaptdl_gpu_power_watts{gpu=\"GPU-b\",index=\"1\"} 80\n")));
  EXPECT_THAT(page(), Not(HasSubstr("adaptdl_gpu_power_watts{gpu=\"GPU-a\"")));
  figures.gpus.erase(figures.gpus.begin());
  metrics.UpdateMachine(figures);
  EXPECT_THAT(page(), AllOf(Not(HasSubstr("GPU-a")), HasSubstr("GPU-b")));
  metrics.UpdateMachine(std::nullopt);
  EXPECT_THAT(page(), AllOf(Not(HasSubstr("GPU-b")), Not(HasSubstr("adaptdl_node_cpus 8"))));
}

}  // namespace
}  // namespace adaptdl::worker
