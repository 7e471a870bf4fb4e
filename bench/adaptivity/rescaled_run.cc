// Trains with the real programs on this machine, and re-scales the job in place while it does: from one
// replica to two, and back to one. For the accuracies of docs/results.md; scripts/reproduce-adaptivity.sh
// starts it.
//
//   rescaled_run PROGRAM ARGUMENTS...       # of adaptivity_bench; absolute paths
//
// Prints the optimiser steps after which the replica set was seen to have changed. Fails if the job ends
// before it has changed twice, or restarts instead.

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(5);
// Of each size at least, as far as the job tells in time.
constexpr int64_t kSteps = 50;
constexpr char kJob[] = "rescaled";

std::vector<std::string> Nodes(int count) {
  std::vector<std::string> nodes;
  nodes.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) nodes.push_back(absl::StrCat("node-", i));
  return nodes;
}

// The job when it first runs with so many replicas, in a group after `group`.
absl::StatusOr<v1::Job> Resize(TestCluster* cluster, int size, int64_t group) {
  if (absl::Status status = cluster->Allocate(kJob, Nodes(size)); !status.ok()) return status;
  absl::StatusOr<v1::Job> job = cluster->WaitForJob(
      kJob,
      [=](const v1::Job& seen) {
        return Finished(seen) || (RunningWith(size)(seen) && seen.status().group() > group);
      },
      kPatience);
  if (job.ok() && Finished(*job)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job ended before it had ", size, " replicas; it needs more steps"));
  }
  return job;
}

absl::Status Train(TestCluster* cluster, const std::vector<std::string>& command) {
  if (absl::Status status = cluster->Start(); !status.ok()) return status;
  v1::Job job = cluster->CommandJob(kJob, command);
  job.mutable_spec()->set_rescale(v1::RESCALE_MODE_IN_PLACE);
  if (absl::Status status = cluster->Submit(job).status(); !status.ok()) return status;
  int64_t group = -1;
  for (const int size : {1, 2, 1}) {
    const absl::StatusOr<v1::Job> there = Resize(cluster, size, group);
    if (!there.ok()) return there.status();
    group = there->status().group();
    const int64_t steps = there->status().progress().optimizer_steps();
    std::printf("%d replicas after %" PRId64 " steps\n", size, steps);
    const auto trained = cluster->WaitForJob(
        kJob, [=](const v1::Job& seen) { return Finished(seen) || StepsReached(steps + kSteps)(seen); },
        kPatience);
    if (!trained.ok()) return trained.status();
  }
  const auto ended = cluster->WaitForJob(kJob, Finished, kPatience);
  if (!ended.ok()) return ended.status();
  const v1::JobStatus& status = ended->status();
  if (status.phase() != v1::JOB_PHASE_SUCCEEDED || status.rescales() != 2 || status.restarts() != 0) {
    return absl::InternalError(absl::StrCat("the job was re-scaled ", status.rescales(),
                                            " times in place and restarted ", status.restarts(),
                                            " times: ", status.ShortDebugString()));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace adaptdl::integration

int main(int argc, char** argv) {
  const std::vector<std::string> command(argv + 1, argv + argc);
  if (command.empty()) {
    std::fprintf(stderr, "usage: rescaled_run PROGRAM ARGUMENTS...\n");
    return 2;
  }
  adaptdl::integration::TestCluster cluster({.workers = 2, .allocator = false});
  const absl::Status status = adaptdl::integration::Train(&cluster, command);
  if (status.ok()) return 0;
  std::fprintf(stderr, "rescaled_run: %s\n%s\n", status.ToString().c_str(),
               cluster.Logs(adaptdl::integration::kJob).c_str());
  return 1;
}
