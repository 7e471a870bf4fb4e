// Between which nodes the network is measured, and what is thought of the figures.

#include "cli/support/network_check.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/golden.h"

namespace adaptdl::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::ListNodesResponse NetworkNodes(int ready) {
  v1::ListNodesResponse nodes;
  v1::Node* lost = nodes.add_nodes();
  lost->set_node_id("lost");
  lost->mutable_status()->set_phase(v1::NODE_PHASE_LOST);
  for (int i = 0; i < ready; ++i) {
    v1::Node* node = nodes.add_nodes();
    node->set_node_id(absl::StrCat("n", i));
    node->mutable_status()->set_phase(v1::NODE_PHASE_READY);
  }
  return nodes;
}

std::vector<std::string> PairNames(const std::vector<NodePair>& pairs) {
  std::vector<std::string> names;
  for (const NodePair& pair : pairs) names.push_back(absl::StrCat(pair.from.node_id(), pair.to.node_id()));
  return names;
}

NodePair SamplePair() {
  const v1::ListNodesResponse nodes = NetworkNodes(2);
  return {.from = nodes.nodes(1), .to = nodes.nodes(2)};
}

TEST(NetworkCheckTest, EveryNodeSendsOnceAndReceivesOnce) {
  EXPECT_THAT(PairNames(*PairsToMeasure(NetworkNodes(3), {})), ElementsAre("n0n1", "n1n2", "n2n0"));
  EXPECT_THAT(PairNames(*PairsToMeasure(NetworkNodes(3), {"n2", "n0", "n2"})), ElementsAre("n2n0", "n0n2"));
  EXPECT_EQ(PairsToMeasure(NetworkNodes(40), {})->size(), kMostPairs);
}

TEST(NetworkCheckTest, TakesTwoNodesThatAreReady) {
  const absl::Status lonely = PairsToMeasure(NetworkNodes(1), {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(lonely)) << lonely;
  EXPECT_THAT(std::string(lonely.message()), HasSubstr("of which 1 is ready"));
  EXPECT_TRUE(absl::IsNotFound(PairsToMeasure(NetworkNodes(3), {"n0", "lost"}).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(PairsToMeasure(NetworkNodes(3), {"n0", "n0"}).status()));
}

TEST(NetworkCheckTest, AJobIsBoundToItsNode) {
  const v1::JobSpec spec = NetperfJob("default", SamplePair().to, {"serve"}, "secret").job().spec();
  EXPECT_EQ(spec.template_().placement().node_terms(0).fields(0).values(0), "n1");
  EXPECT_EQ(spec.max_replicas(), 1);
  EXPECT_EQ(spec.max_restarts(), 0);
  EXPECT_THAT(spec.template_().args(), ElementsAre("serve"));
}

TEST(NetworkCheckTest, ReadsOnlyWhatNetperfSays) {
  EXPECT_TRUE(absl::IsNotFound(ParseNetperfLine("a warning of the linker").status()));
  EXPECT_TRUE(absl::IsNotFound(ParseNetperfLine("[1]").status()));
  const absl::Status error = ParseNetperfLine(R"({"error":"connecting to h:1: timed out"})").status();
  EXPECT_EQ(error, absl::UnavailableError("connecting to h:1: timed out"));
  EXPECT_EQ(*PortFrom(*ParseNetperfLine(R"({"port":7})")), 7);
  for (const char* line :
       {R"({})", R"({"port":0})", R"({"port":65536})", R"({"port":"7"})", R"({"port":1.5})"}) {
    EXPECT_FALSE(PortFrom(*ParseNetperfLine(line)).ok()) << line;
  }
  for (const char* bandwidths : {"[]", "[0]", "[-1]", "[\"1\"]", "7", "null"}) {
    const std::string line = absl::StrCat(R"({"roundTripSeconds":[1],"bytesPerSecond":)", bandwidths, "}");
    EXPECT_FALSE(QualityFrom(*ParseNetperfLine(line)).ok()) << line;
  }
}

TEST(NetworkCheckTest, SaysHowTheNetworkIs) {
  const auto quality = QualityFrom(*ParseNetperfLine(
      R"({"roundTripSeconds":[0.0002,0.0001,0.004],"bytesPerSecond":[1.25e9,1e9,1.2e9,1.1e9,3e6]})"));
  ASSERT_TRUE(quality.ok()) << quality.status();
  const std::vector<Check> checks = {
      NetworkCheck(SamplePair(), quality),
      NetworkCheck(SamplePair(), absl::UnavailableError("connecting to 10.0.0.7:1: No route to host")),
      NetworkCheck(SamplePair(), absl::DeadlineExceededError("node n1 has had no room for 1m00s"))};
  ExpectGolden("network", absl::StrCat(Render(CheckTable(checks), false), Remedies(checks),
                                       NetworkDocument(SamplePair(), quality).dump(2), "\n"));
}

TEST(NetworkCheckTest, FiguresAreReadableAtTheEdgeOfAUnit) {
  const NetworkQuality quality = {.median_bytes_per_second = 999.9e6 / 8,
                                  .worst_bytes_per_second = 1e3 / 8,
                                  .median_round_trip_seconds = 0.9998,
                                  .worst_round_trip_seconds = 3};
  EXPECT_EQ(NetworkCheck(SamplePair(), quality).text,
            "1000 Mbit/s (worst 1 kbit/s), round trip 1000 ms (worst 3000 ms)");
}

}  // namespace
}  // namespace adaptdl::cli
