// The real program adaptdl-autoscaler with a group of machines of a double of Google Cloud, as the account of its machine.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "libs/base/file.h"
#include "libs/base/process/daemon.h"
#include "tests/libs/base/process/process_fixture.h"
#include "tests/services/autoscaler/fake_cluster.h"
#include "tests/services/autoscaler/providers/gcp/fake_instance_group.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::HasSubstr;

class GcpProgramTest : public ProcessTest {
 protected:
  void Start(const std::string& more_of_section = "") {
    const std::string pools = folder_ + "/pools.yaml";
    const std::string file = absl::StrCat(
        "cooldown: 0s\npools:\n- name: l4\n  provider: gcp\n  cpus: 7\n  memory: 30Gi\n  maxNodes: 3\n"
        "  gcp: {project: p, zone: z, instanceGroup: workers, endpoint: \"",
        google_.url(), "\"", more_of_section, "}\n");
    ASSERT_TRUE(WriteFileAtomically(pools, file, 0600).ok());
    const std::string metadata(absl::StripPrefix(google_.url(), "http://"));
    const auto started = StartDaemon(
        {.command = {ADAPTDL_BINARY_DIR "/bin/adaptdl-autoscaler", "--insecure", "--listen=127.0.0.1:0",
                     "--metrics-listen=127.0.0.1:0", absl::StrCat("--supervisor=", cluster_.address()),
                     absl::StrCat("--allocator=", cluster_.address()),
                     absl::StrCat("--state-dir=", folder_, "/state"), "--pools=" + pools,
                     "--poll-period=10ms"},
         .environment = std::vector<std::string>{"PATH=/usr/bin:/bin", "GCE_METADATA_HOST=" + metadata},
         .log_file = folder_ + "/log"});
    ASSERT_TRUE(started.ok()) << started.status();
    program_ = *started;
    EndLater(program_);
  }

  // Machines that are vouched for with number and address.
  int Vouched() const {
    const v1::ReportNodePoolsRequest report = cluster_.report();
    int vouched = 0;
    for (const v1::VouchedNode& node : report.nodes())
      vouched += !node.instance_id().empty() && !node.address().empty();
    return vouched;
  }

  FakeCluster cluster_;
  FakeInstanceGroup google_;
  ProcessIdentity program_;
};

TEST_F(GcpProgramTest, MachinesFollowTheJobs) {
  cluster_.SetDesired(2);
  Start();
  ASSERT_TRUE(Eventually([&] { return google_.living() == 2 && Vouched() == 2; }))
      << Content(folder_ + "/log");
  EXPECT_EQ(cluster_.report().pools(0).provider(), "gcp");
  cluster_.SetDesired(0);
  ASSERT_TRUE(Eventually([&] { return google_.living() == 0; })) << Content(folder_ + "/log");
}

TEST_F(GcpProgramTest, WantOfCapacityIsToldAndGotOver) {
  google_.Change([](auto& group) { group.capacity = 0; });
  cluster_.SetDesired(1);
  Start();
  const auto is_told = [&] {
    const std::vector<v1::PoolEvent> events = cluster_.events();
    return std::any_of(events.begin(), events.end(),
                       [](const v1::PoolEvent& event) { return event.reason() == "InsufficientCapacity"; });
  };
  ASSERT_TRUE(Eventually(is_told)) << Content(folder_ + "/log");
  ASSERT_TRUE(Eventually([&] { return google_.living() == 0; })) << "the request is taken back";
}

TEST_F(GcpProgramTest, AKeyThatIsNoneIsNamed) {
  const std::string key = folder_ + "/key.json";
  ASSERT_TRUE(WriteFileAtomically(key, R"({"type": "authorized_user"})", 0600).ok());
  Start(", credentialsFile: \"" + key + "\"");
  ASSERT_TRUE(Eventually([&] { return !IsAlive(program_); }));
  EXPECT_THAT(Content(folder_ + "/log"), HasSubstr("pool l4: gcp.credentialsFile " + key));
}

}  // namespace
}  // namespace adaptdl::autoscaler
