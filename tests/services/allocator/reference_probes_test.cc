// How many replicas AdaptDL's allocator lets a job have (controller.json, "probes"), and ours. The vectors hold the answers, and
// their names the questions.

#include <functional>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "services/allocator/snapshot_converter.h"
#include "tests/services/allocator/snapshots.h"
#include "tests/vectors/vectors.h"

namespace adaptdl::allocator {
namespace {

constexpr int kMinLocalBatch = 64;

void Profiled(int replicas, v1::Job* job) { *job->mutable_status()->mutable_hints() = MakeHints(replicas); }

void CanFeed(int replicas, v1::Job* job) {
  v1::Hints* hints = job->mutable_status()->mutable_hints();
  hints->set_max_batch_size(replicas * kMinLocalBatch);
  hints->set_min_local_batch_size(kMinLocalBatch);
}

// What the jobs of the probes are.
const std::map<std::string, std::function<void(v1::Job*)>>& Bounds() {
  static const auto* const bounds = new std::map<std::string, std::function<void(v1::Job*)>>{
      {"no hints", [](v1::Job*) {}},
      {"no hints minReplicas=3", [](v1::Job* job) { job->mutable_spec()->set_min_replicas(3); }},
      {"hints maxProfiled=4", [](v1::Job* job) { Profiled(4, job); }},
      {"hints maxProfiled=4 maxReplicas=5",
       [](v1::Job* job) {
         Profiled(4, job);
         job->mutable_spec()->set_max_replicas(5);
       }},
      {"maxProfiled=100 -> capped by maxBatch/minLocal=20", [](v1::Job* job) {
         Profiled(100, job);
         CanFeed(20, job);
       }}};
  return *bounds;
}

// Of the others the reference's answer is an error of its own, or of its policy, which is not ours.
const std::map<std::string, std::string>& Differences() {
  static const char kCrash[] =
      "its allocator ends by an assertion; ours leaves out the job's hints, or lets it have its minimum "
      "(snapshot_converter_test.cc)";
  static const char kPolicy[] = "of its genetic policy; compared with pollux in tests/simulator";
  static const auto* const differences = new std::map<std::string, std::string>{
      {"minReplicas=30 but maxBatch/minLocal=20", kCrash},
      {"minLocal > maxBatch", kCrash},
      {"initBatchSize 0", kCrash},
      {"perfParams empty", kCrash},
      {"maxBatchSize < init", kCrash},
      {"unschedulable job with live allocation -> KeyError in policy", kCrash},
      {"no jobs", kPolicy},
      {"no nodes", kPolicy},
      {"two pinned distributed jobs sharing nodes (base p1=[n1,n2], p2=[n1,n2])", kPolicy},
      {"repair capacity leak: gpu=4 node, jobs 3/3/1 each one replica", kPolicy},
      {"repair cap of 99 replicas per job per node", kPolicy},
      {"two distributed jobs on same nodes, second zeroed", kPolicy},
  };
  return *differences;
}

// Of "{'min': 0, 'max': 8, ...".
int MostIn(const std::string& result) {
  const std::string field = "'max': ";
  const size_t begin = result.find(field) + field.size();
  int most = -1;
  EXPECT_TRUE(absl::SimpleAtoi(result.substr(begin, result.find(',', begin) - begin), &most)) << result;
  return most;
}

int MostOf(const std::function<void(v1::Job*)>& set) {
  v1::ClusterSnapshot snapshot;
  v1::Job job = MakeJob("a");
  set(&job);
  *snapshot.add_jobs() = job;
  SnapshotConverter converter;
  const ConvertedCluster cluster = converter.Convert(snapshot, absl::FromUnixSeconds(1));
  return cluster.view.jobs.at(0).max_replicas;
}

TEST(ReferenceProbesTest, JobsMayHaveAsManyReplicas) {
  const nlohmann::json probes = ReadVectors("controller.json")["probes"];
  for (const nlohmann::json& probe : probes) {
    const std::string name = probe["name"];
    const auto bound = Bounds().find(name);
    if (bound == Bounds().end()) {
      EXPECT_TRUE(Differences().contains(name)) << name << " is neither compared nor named as an exception";
      continue;
    }
    EXPECT_EQ(MostOf(bound->second), MostIn(probe["result"])) << name;
  }
}

}  // namespace
}  // namespace adaptdl::allocator
