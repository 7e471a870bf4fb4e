// A toy application whose jobs are easy to follow in one's head.
//
// Three epochs of 100 steps each; every step of any batch size (100 to 400) makes one step of progress. A
// step takes 1 s on one GPU, 0.5 s on two GPUs of one node, 0.6 s on two nodes with one GPU each, 0.25 s on
// four GPUs of one node.

#ifndef ADAPTDL_TESTS_SIMULATOR_TOY_H_
#define ADAPTDL_TESTS_SIMULATOR_TOY_H_

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "simulator/traces/workload.h"

namespace adaptdl::simulator {

class ToyTest : public testing::Test {
 protected:
  ToyTest() {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string(test->test_suite_name()) + "." + test->name() + "." + std::to_string(::getpid()));
    WriteTraces("toy", "placements.csv", 1);
  }
  ~ToyTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& relative, const std::string& text) const {
    const std::filesystem::path path = folder_ / relative;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  void WriteTraces(const std::string& application, const std::string& placements, double slowness) const {
    const std::string folder = "traces/" + application + "/";
    for (const char* batch : {"100", "400"}) {
      Write(folder + "validation-" + batch + ".csv",
            "progress,iteration,metric,grad_sqr,grad_var\n100,100,0,1,0\n200,200,0,1,0\n300,300,0,1,0\n");
    }
    std::string text = "placement,local_bsz,step_time,sync_time\n";
    const std::vector<std::pair<std::string, double>> steps = {
        {"1", 1}, {"2", 0.5}, {"11", 0.6}, {"4", 0.25}};
    for (const auto& [placement, step] : steps) {
      for (const int local : {25, 400}) {
        text += placement + "," + std::to_string(local) + "," + std::to_string(step * slowness) + ",0\n";
      }
    }
    Write(folder + placements, text);
  }

  // Lines of "name,time"; each wants one GPU and a batch of 100 unless it adapts.
  std::vector<WorkloadJob> Load(const std::vector<std::string>& lines,
                                const std::vector<std::string>& gpu_types = {"aws"}) const {
    std::string text = "name,time,application,num_replicas,batch_size\n";
    for (const std::string& line : lines) {
      text += line + ",toy,1,100\n";
    }
    Write("workload.csv", text);
    const absl::StatusOr<std::vector<WorkloadJob>> workload = LoadWorkload(
        {(folder_ / "workload.csv").string(), {folder_.string()}, gpu_types, TraceRules::kPollux});
    EXPECT_TRUE(workload.ok()) << workload.status();
    return workload.value_or(std::vector<WorkloadJob>());
  }

  std::filesystem::path folder_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_TESTS_SIMULATOR_TOY_H_
