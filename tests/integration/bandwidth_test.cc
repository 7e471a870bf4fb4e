// "adaptdl doctor --bandwidth" on a cluster of the real programs: its form, not how fast this machine's loopback is.

#include <sys/wait.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "nlohmann/json.hpp"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {
namespace {

using ::testing::HasSubstr;

class BandwidthTest : public testing::Test {
 protected:
  // Programs of ours are in no node's PATH, as where a cluster is started from a build folder by its path.
  void Start(int workers, const std::vector<std::string>& worker_flags = {}) {
    cluster_ = std::make_unique<TestCluster>(
        TestClusterOptions{.workers = workers, .worker_flags = [=](int) { return worker_flags; }});
    cluster_->SetWorkerEnvironment({"PATH=/nowhere"});
    const absl::Status started = cluster_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  // Runs the command and returns its exit code.
  int Doctor(const std::string& flags) {
    const std::string command =
        absl::StrCat(cluster_->Binary("adaptdl"), " doctor ", flags, " ",
                     absl::StrJoin(cluster_->CommandFlags(), " "), " >", Path("out"), " 2>", Path("err"));
    const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe): no other thread does
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string Path(const std::string& name) const { return cluster_->folder() + "/" + name; }
  std::string Text(const std::string& name) const { return ReadWholeFile(Path(name)).value_or(""); }

  std::unique_ptr<TestCluster> cluster_;
};

TEST_F(BandwidthTest, MeasuresBothWaysBetweenTwoNodesAndLeavesNoJobs) {
  Start(2);
  EXPECT_EQ(Doctor("--bandwidth -o json"), 0) << Text("out") << Text("err");
  const nlohmann::json document = nlohmann::json::parse(Text("out"), nullptr, false);
  ASSERT_TRUE(document.is_object()) << Text("out");
  const nlohmann::json& network = document["network"];
  ASSERT_EQ(network.size(), 2) << network;
  EXPECT_EQ(network[0]["from"], "node-0");
  EXPECT_EQ(network[0]["to"], "node-1");
  EXPECT_EQ(network[1]["from"], "node-1");
  for (const nlohmann::json& pair : network) {
    ASSERT_FALSE(pair.contains("error")) << pair;
    EXPECT_GT(pair["worstBytesPerSecond"], 0.0);
    EXPECT_GE(pair["medianBytesPerSecond"], pair["worstBytesPerSecond"]);
    EXPECT_GT(pair["medianRoundTripSeconds"], 0.0);
    EXPECT_GE(pair["worstRoundTripSeconds"], pair["medianRoundTripSeconds"]);
  }
  grpc::ClientContext context;
  v1::ListJobsRequest request;
  request.set_namespace_("*");
  v1::ListJobsResponse jobs;
  ASSERT_TRUE(cluster_->jobs().ListJobs(&context, request, &jobs).ok());
  EXPECT_EQ(jobs.jobs_size(), 0) << jobs.ShortDebugString();
}

TEST_F(BandwidthTest, SaysThatANodeLacksTheProgram) {
  Start(2, {"--netperf", "/nowhere/adaptdl-netperf"});
  EXPECT_EQ(Doctor("--bandwidth --node node-0 --node node-1"), 0) << "nothing is known to be wrong";
  EXPECT_THAT(Text("out"), HasSubstr("adaptdl-netperf did not run on node node-1"));
  EXPECT_THAT(Text("out"), HasSubstr("package adaptdl-services"));
}

TEST_F(BandwidthTest, SaysThatThereIsOneNodeOnly) {
  Start(1);
  EXPECT_EQ(Doctor("--bandwidth"), 1);
  EXPECT_THAT(Text("err"), HasSubstr("of which 1 is ready"));
}

}  // namespace
}  // namespace adaptdl::integration
