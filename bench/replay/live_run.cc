#include "bench/replay/live_run.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/replay/first_come.h"
#include "bench/replay/job_watch.h"
#include "nlohmann/json.hpp"
#include "tests/integration/test_cluster.h"

namespace adaptdl::replay {
namespace {

using integration::TestCluster;
using integration::TestClusterOptions;
using simulator::WorkloadJob;

// Both by the clock of the workload, as adaptdl-sim has them.
constexpr absl::Duration kReportPeriod = absl::Seconds(30);
constexpr absl::Duration kInterval = absl::Seconds(60);
constexpr absl::Duration kNews = absl::Seconds(30);

TestClusterOptions ClusterOf(const LiveOptions& options) {
  TestClusterOptions cluster;
  cluster.workers = options.nodes;
  cluster.cpus = options.slots_per_node;
  cluster.allocator = options.arm == Arm::kElastic;
  cluster.allocator_interval = kInterval / options.compression;
  cluster.tls = false;
  // Processes of all jobs share few real cores: some are silent for a moment.
  cluster.replica_heartbeat_period = absl::Seconds(2);
  return cluster;
}

// One live run in progress.
class Run {
 public:
  Run(absl::Span<const WorkloadJob> workload, const LiveOptions& options)
      : workload_(workload),
        options_(options),
        cluster_(ClusterOf(options)),
        first_come_(options.nodes, options.slots_per_node) {}

  absl::StatusOr<LiveRun> Go() {
    if (absl::Status status = cluster_.Start(); !status.ok()) return status;
    std::filesystem::create_directories(RecordFolder());
    watch_.emplace(&cluster_.jobs());
    begin_ = absl::Now();
    const absl::Time deadline = begin_ + options_.timeout;
    size_t submitted = 0;
    while (submitted < workload_.size() ||
           (options_.to_the_end && watch_->finished() < static_cast<int>(workload_.size()))) {
      if (absl::Now() > deadline) return absl::DeadlineExceededError("the run takes longer than it may");
      while (submitted < workload_.size() && DueAt(workload_[submitted]) <= absl::Now()) {
        if (absl::Status status = Submit(workload_[submitted++]); !status.ok()) return status;
      }
      if (options_.arm == Arm::kStatic) {
        if (absl::Status status = ServeFirstCome(); !status.ok()) return status;
      }
      if (absl::Status status = CheckNoneFailed(); !status.ok()) return status;
      TellNews(submitted);
      const absl::Time next = submitted < workload_.size() ? DueAt(workload_[submitted]) : deadline;
      const int finished = watch_->finished();
      watch_->Await([&](const auto& seen) { return CountEnded(seen) > finished; },
                    std::min({next, absl::Now() + kNews, deadline}));
    }
    if (absl::Status status = CheckNoneFailed(); !status.ok()) return status;
    return Collect();
  }

 private:
  std::string RecordFolder() const { return cluster_.folder() + "/records"; }
  std::string RecordOf(const WorkloadJob& job) const { return RecordFolder() + "/" + job.name; }
  absl::Time DueAt(const WorkloadJob& job) const {
    return begin_ + absl::Seconds((job.submitted - workload_.front().submitted) / options_.compression);
  }
  double ToWorkload(absl::Time time) const {
    return absl::ToDoubleSeconds(time - begin_) * options_.compression;
  }

  static int CountEnded(const std::map<std::string, JobWatch::Seen>& seen) {
    return static_cast<int>(std::count_if(seen.begin(), seen.end(),
                                          [](const auto& entry) { return entry.second.ended.has_value(); }));
  }

  absl::Status Submit(const WorkloadJob& job) {
    const simulator::Application& application = *job.application;
    std::vector<std::string> command = {options_.program,
                                        "--application",
                                        application.name,
                                        "--compression",
                                        absl::StrCat(options_.compression),
                                        "--record",
                                        RecordOf(job)};
    for (const std::string& folder : options_.traces) command.insert(command.end(), {"--traces", folder});
    v1::Job request = cluster_.CommandJob(job.name, command);
    v1::JobSpec* spec = request.mutable_spec();
    int64_t batch_size = application.kept_batch_size;
    spec->set_max_replicas(application.max_replicas);
    if (options_.arm == Arm::kStatic) {
      batch_size = job.batch_size;
      spec->set_min_replicas(job.replicas);
      spec->set_max_replicas(job.replicas);
      first_come_.Arrive(job.name, job.replicas);
    }
    if (batch_size > 0) {
      spec->mutable_template_()->add_args("--batch-size");
      spec->mutable_template_()->add_args(absl::StrCat(batch_size));
    }
    v1::EnvironmentVariable* period = spec->mutable_template_()->add_env();
    period->set_name("ADAPTDL_HINTS_PERIOD_SECONDS");
    period->set_value(absl::StrCat(absl::ToDoubleSeconds(kReportPeriod) / options_.compression));
    const absl::StatusOr<v1::Job> submitted = cluster_.Submit(request);
    if (submitted.ok()) submitted_[job.name] = absl::Now();
    return submitted.status();
  }

  absl::Status ServeFirstCome() {
    for (const auto& [name, seen] : watch_->All()) {
      if (seen.ended) first_come_.End(name);
    }
    for (const FirstCome::Start& start : first_come_.TakeStarts()) {
      std::vector<std::string> nodes;
      for (const int node : start.nodes) nodes.push_back(absl::StrCat("node-", node));
      if (absl::Status status = cluster_.Allocate(start.job, nodes); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // A run that is spoilt is not waited for.
  absl::Status CheckNoneFailed() {
    for (const auto& [name, seen] : watch_->All()) {
      const v1::JobStatus& status = seen.job.status();
      if (!seen.ended || status.phase() == v1::JOB_PHASE_SUCCEEDED) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(name, " did not succeed: ", status.message(), "\n", cluster_.Logs(name)));
    }
    return absl::OkStatus();
  }

  void TellNews(size_t submitted) {
    if (absl::Now() < next_news_) return;
    next_news_ = absl::Now() + kNews;
    int replicas = 0;
    for (const auto& [name, seen] : watch_->All()) replicas += seen.replicas;
    std::cerr << "replay: " << absl::FormatDuration(absl::Trunc(absl::Now() - begin_, absl::Seconds(1)))
              << ", " << submitted << " of " << workload_.size() << " jobs submitted, " << watch_->finished()
              << " done, " << replicas << " replicas\n";
  }

  absl::StatusOr<LiveRun> Collect() {
    LiveRun run;
    const std::map<std::string, JobWatch::Seen> all = watch_->All();
    for (const WorkloadJob& job : workload_) {
      const auto found = all.find(job.name);
      if (found == all.end()) continue;  // it was submitted a moment ago
      const JobWatch::Seen& seen = found->second;
      const v1::JobStatus& status = seen.job.status();
      ReadRecord(job, seen, &run);
      for (const absl::Duration waited : seen.newcomers)
        run.newcomer_seconds.push_back(absl::ToDoubleSeconds(waited));
      if (!options_.to_the_end) continue;
      run.jobs.push_back({.name = job.name,
                          .submitted = ToWorkload(submitted_.at(job.name)),
                          .started = ToWorkload(seen.launched.value_or(*seen.ended)),
                          .completed = ToWorkload(*seen.ended),
                          .replica_seconds = absl::ToDoubleSeconds(seen.replica_time) * options_.compression,
                          .restarts = status.restarts(),
                          .rescales = status.rescales()});
    }
    return run;
  }

  // A line that its job has not finished is left out.
  void ReadRecord(const WorkloadJob& job, const JobWatch::Seen& seen, LiveRun* run) const {
    std::ifstream file(RecordOf(job));
    std::string line;
    bool first = true;
    while (std::getline(file, line)) {
      const nlohmann::json record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!record.is_object() || !record.contains("time")) continue;
      if (first && seen.launched) {
        const absl::Time stepped = absl::UnixEpoch() + absl::Seconds(record["time"].get<double>());
        run->start_seconds.push_back(std::max(absl::ToDoubleSeconds(stepped - *seen.launched), 0.0));
      }
      first = false;
      if (record.contains("lost"))
        run->in_place_seconds.push_back(std::max(record["lost"].get<double>(), 0.0));
    }
  }

  const absl::Span<const WorkloadJob> workload_;
  const LiveOptions& options_;
  TestCluster cluster_;
  FirstCome first_come_;
  std::map<std::string, absl::Time> submitted_;
  absl::Time begin_;
  absl::Time next_news_ = absl::InfinitePast();
  std::optional<JobWatch> watch_;
};

}  // namespace

absl::StatusOr<LiveRun> RunLive(absl::Span<const WorkloadJob> workload, const LiveOptions& options) {
  return Run(workload, options).Go();
}

}  // namespace adaptdl::replay
