// What a re-scale costs a running job, with the real programs on this machine: the pause of the training loop
// from the end of the old group's last step to the begin of the new group's first forward pass, with the same
// total batch; from the death of a replica to the end of the survivors' next step; and the same pauses for a
// job that asks for `rescale: restart`.
//
// A newcomer of a large model needs its state. What that costs a survivor ("lost") is the time between the ends
// of its last step in the old group and of its first one in the new group, less a median step of the new
// group. The goal for it is 1.2 times what the bytes need from one process to another (broadcast_job, in the
// same run), and 100 ms.
//
//   build/release/bench/rescale_bench [-o json] [small] [restart] [large]     # default: all parts
//   build/release/bench/rescale_bench python [--adaptdl PYTHON]   # a job of Python's package, in place
//
// PYTHON is an interpreter that has AdaptDL's own package: the same job runs on that one too, by restarts.

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Step {
  int64_t group = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// By process, in order.
using Steps = std::map<std::string, std::vector<Step>>;

Steps ReadSteps(const std::string& folder) {
  Steps steps;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    for (Step step; file >> step.group >> step.begin >> step.end;) {
      steps[entry.path().stem().string()].push_back(step);
    }
  }
  return steps;
}

// Between the last step before group `group` and its first one; of any process. Negative: there is none.
int64_t PauseBefore(const Steps& steps, int64_t group) {
  int64_t last_end = -1;
  int64_t first_begin = -1;
  for (const auto& [process, list] : steps) {
    for (const Step& step : list) {
      if (step.group < group) last_end = std::max(last_end, step.end);
      if (step.group < group) continue;
      if (first_begin < 0 || step.begin < first_begin) first_begin = step.begin;
    }
  }
  return last_end < 0 || first_begin < 0 ? -1 : first_begin - last_end;
}

// From `time` until the end of the first step of a later group. Negative: there is none.
int64_t UntilStepAfter(const Steps& steps, int64_t group, int64_t time) {
  int64_t end = -1;
  for (const auto& [process, list] : steps) {
    for (const Step& step : list) {
      if (step.group > group && (end < 0 || step.end < end)) end = step.end;
    }
  }
  return end < 0 ? -1 : end - time;
}

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return -1;
  std::sort(values.begin(), values.end());
  const auto index = static_cast<size_t>(std::llround(q * static_cast<double>(values.size() - 1)));
  return values[index];
}

// What a survivor lost at the begin of group `group`, in nanoseconds; the most of any. Negative: nobody survived.
int64_t LostBefore(const Steps& steps, int64_t group) {
  int64_t most = -1;
  for (const auto& [process, list] : steps) {
    int64_t last = -1;
    std::vector<int64_t> ends;
    for (const Step& step : list) {
      if (step.group < group) last = step.end;
      if (step.group == group) ends.push_back(step.end);
    }
    if (last < 0 || ends.size() < 2) continue;
    std::vector<double> between;
    for (size_t i = 1; i < ends.size(); ++i) between.push_back(static_cast<double>(ends[i] - ends[i - 1]));
    most = std::max(most, ends.front() - last - static_cast<int64_t>(Quantile(between, 0.5)));
  }
  return most;
}

std::vector<std::string> Nodes(int count) {
  std::vector<std::string> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(absl::StrCat("node-", i));
  return nodes;
}

// A job under measurement.
class Experiment {
 public:
  Experiment(TestCluster* cluster, std::string name, int64_t parameters, v1::RescaleMode mode)
      : Experiment(cluster, std::move(name), {absl::StrCat(ADAPTDL_BINARY_DIR, "/bench/rescale_job")},
                   {absl::StrCat(parameters), "64"}, mode) {}
  // `command` gets the folder, and then `arguments`.
  Experiment(TestCluster* cluster, std::string name, std::vector<std::string> command,
             const std::vector<std::string>& arguments, v1::RescaleMode mode)
      : cluster_(cluster), name_(std::move(name)), folder_(cluster->folder() + "/steps-" + name_) {
    std::filesystem::create_directories(folder_);
    command.push_back(folder_);
    command.insert(command.end(), arguments.begin(), arguments.end());
    v1::Job job = cluster_->CommandJob(name_, command);
    job.mutable_spec()->set_rescale(mode);
    Must(cluster_->Submit(job).status());
  }

  // The job's log tells that it trains, not its progress (rescale_job.py).
  void SetToldByLog() { told_by_log_ = true; }

  // Changes to so many replicas, and notes the pause under "<before>-<after>".
  void Resize(int size, bool measured = true) {
    const int before = size_;
    Must(cluster_->Allocate(name_, Nodes(size)));
    AwaitTraining(size);
    if (before > 0 && measured) {
      groups_.emplace_back(absl::StrCat(before, " to ", size), group_);
    }
  }

  // Kills a replica other than rank 0, and waits until another one has taken its place.
  void Kill() {
    const int64_t group = group_;
    const auto shims = FindProcesses(cluster_->folder() + "/node");
    for (const pid_t pid : FindProcesses(folder_)) {
      if (std::find(shims.begin(), shims.end(), pid) != shims.end()) continue;
      kills_.emplace_back(group, Now());
      kill(pid, SIGKILL);
      break;
    }
    AwaitTraining(size_, group + 1);
  }

  void End() {
    v1::CancelJobRequest request;
    request.set_name(name_);
    request.set_request_id(absl::StrCat("cancel-", name_, "-", Now()));
    grpc::ClientContext context;
    v1::CancelJobResponse response;
    cluster_->jobs().CancelJob(&context, request, &response);
    Must(cluster_->WaitForJob(name_, Finished, kPatience).status());
  }

  // Milliseconds by case.
  std::map<std::string, std::vector<double>> Pauses() const {
    std::map<std::string, std::vector<double>> pauses;
    const Steps steps = ReadSteps(folder_);
    for (const auto& [name, group] : groups_) {
      const int64_t pause = PauseBefore(steps, group);
      if (pause >= 0) pauses[name].push_back(static_cast<double>(pause) * 1e-6);
    }
    for (const auto& [name, group] : groups_) {
      const int64_t lost = LostBefore(steps, group);
      if (lost >= 0) pauses[absl::StrCat(name, ", lost")].push_back(static_cast<double>(lost) * 1e-6);
    }
    for (const auto& [group, time] : kills_) {
      const int64_t until = UntilStepAfter(steps, group, time);
      if (until >= 0) pauses["killed"].push_back(static_cast<double>(until) * 1e-6);
    }
    return pauses;
  }

 private:
  void Must(const absl::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "rescale_bench: %s\n%s\n", status.ToString().c_str(), cluster_->Logs(name_).c_str());
    std::exit(1);  // NOLINT(concurrency-mt-unsafe): nothing else ends the process
  }

  void AwaitTraining(int size, int64_t after_group = -1) {
    const int64_t least = std::max(after_group + 1, group_ + (size == size_ ? 0 : 1));
    const auto there = cluster_->WaitForJob(
        name_,
        [&](const v1::Job& job) {
          return job.status().phase() == v1::JOB_PHASE_RUNNING && job.status().allocation_size() == size &&
                 job.status().group() >= least;
        },
        kPatience);
    Must(there.status());
    group_ = there->status().group();
    size_ = size;
    if (told_by_log_) {
      const std::string text = absl::StrCat("group ", group_, " trains");
      Must(cluster_->WaitForLog(name_, text, kPatience) ? absl::OkStatus()
                                                        : absl::DeadlineExceededError(text));
      return;
    }
    const int64_t steps = there->status().progress().optimizer_steps();
    Must(cluster_->WaitForJob(name_, StepsReached(steps + 5), kPatience).status());
  }

  TestCluster* const cluster_;
  const std::string name_;
  const std::string folder_;
  bool told_by_log_ = false;
  int size_ = 0;
  int64_t group_ = 0;
  // Case, and the group that came out of it.
  std::vector<std::pair<std::string, int64_t>> groups_;
  // Group in which a replica was killed, and when.
  std::vector<std::pair<int64_t, int64_t>> kills_;
};

void Add(const std::string& mode, const std::map<std::string, std::vector<double>>& pauses,
         nlohmann::json* cases) {
  for (const auto& [name, values] : pauses) {
    cases->push_back({{"mode", mode},
                      {"case", name},
                      {"runs", values.size()},
                      {"pause_ms", {{"p50", Quantile(values, 0.5)}, {"p99", Quantile(values, 0.99)}}},
                      {"pauses_ms", values}});
  }
}

// Of a broadcast from one process to another on this machine, as measured in several rounds.
std::vector<double> BroadcastBandwidths(int64_t bytes) {
  constexpr int kRounds = 5;
  const std::string command = absl::StrCat(ADAPTDL_BINARY_DIR, "/bench/broadcast_job ", bytes, " ", kRounds);
  std::vector<double> rounds;
  FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return rounds;
  for (double rate = 0; std::fscanf(output, "%lf", &rate) == 1;) rounds.push_back(rate);
  return pclose(output) == 0 ? rounds : std::vector<double>();
}

// What a newcomer of a model with so many parameters is handed, and how fast.
nlohmann::json RunLarge(TestCluster* cluster, int64_t parameters, nlohmann::json* cases) {
  constexpr int kRounds = 5;
  std::fprintf(stderr, "rescale_bench: in place, %lld parameters\n", static_cast<long long>(parameters));
  // Parameters and Adam's two moments, of four bytes each.
  const int64_t state_bytes = 12 * parameters;
  std::vector<double> bandwidths = BroadcastBandwidths(state_bytes);
  Experiment experiment(cluster, "large", parameters, v1::RESCALE_MODE_IN_PLACE);
  experiment.Resize(1);
  for (int round = 0; round < kRounds; ++round) {
    for (const int size : {2, 1}) experiment.Resize(size);
  }
  experiment.End();
  for (const double rate : BroadcastBandwidths(state_bytes)) bandwidths.push_back(rate);
  const double bandwidth = Quantile(bandwidths, 0.5);
  const double goal_ms = 1.2 * static_cast<double>(state_bytes) / bandwidth * 1e3 + 100;
  Add(absl::StrCat("in place, ", parameters / 1'000'000, " M parameters"), experiment.Pauses(), cases);
  for (nlohmann::json& one : *cases) {
    if (one["case"] == "1 to 2, lost" && one["mode"] != "in place" && one["mode"] != "restart") {
      one["goal_ms"] = goal_ms;
    }
  }
  return {{"state_bytes", state_bytes}, {"broadcast_bytes_per_second", bandwidth}};
}

std::vector<std::string> PythonJob(std::vector<std::string> python) {
  python.push_back(absl::StrCat(ADAPTDL_SOURCE_DIR, "/bench/rescale/rescale_job.py"));
  return python;
}

// A job of Python's package, in place.
void RunPython(TestCluster* cluster, int rounds, nlohmann::json* cases) {
  std::fprintf(stderr, "rescale_bench: Python, in place, %d rounds\n", rounds);
  Experiment experiment(cluster, "python",
                        PythonJob({"/usr/bin/env", absl::StrCat("PYTHONPATH=", ADAPTDL_BINARY_DIR, "/python"),
                                   "/usr/bin/python3"}),
                        {"64"}, v1::RESCALE_MODE_IN_PLACE);
  experiment.Resize(1);
  for (int round = 0; round < rounds; ++round) {
    for (const int size : {2, 1}) experiment.Resize(size);
  }
  experiment.Resize(2, /*measured=*/false);
  for (int i = 0; i < 3; ++i) experiment.Kill();
  experiment.End();
  Add("Python, in place", experiment.Pauses(), cases);
}

// The same on AdaptDL's package, which `python` has: by restarts.
void RunAdaptdl(TestCluster* cluster, const std::string& python, int rounds, nlohmann::json* cases) {
  std::fprintf(stderr, "rescale_bench: AdaptDL's package, by restarts, %d rounds\n", rounds);
  Experiment experiment(
      cluster, "adaptdl",
      PythonJob({"/usr/bin/env", "--unset=PYTHONPATH", std::filesystem::absolute(python).string()}), {"64"},
      v1::RESCALE_MODE_RESTART);
  experiment.SetToldByLog();
  experiment.Resize(1);
  for (int round = 0; round < rounds; ++round) {
    for (const int size : {2, 1}) experiment.Resize(size);
  }
  experiment.End();
  Add("AdaptDL's package, restart", experiment.Pauses(), cases);
}

// `adaptdl`: an interpreter with AdaptDL's package, or empty.
int Main(bool json, const std::vector<std::string>& parts, const std::string& adaptdl) {
  constexpr int kRounds = 8;
  const auto wanted = [&](const char* part) {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  TestCluster cluster({.workers = 4, .allocator = false, .adaptdl_http = !adaptdl.empty()});
  if (const absl::Status status = cluster.Start(); !status.ok()) {
    std::fprintf(stderr, "rescale_bench: %s\n", status.ToString().c_str());
    return 1;
  }
  nlohmann::json cases = nlohmann::json::array();
  std::vector<double> all;
  if (wanted("small")) {
    std::fprintf(stderr, "rescale_bench: in place, %d rounds\n", kRounds);
    Experiment experiment(&cluster, "in-place", 0, v1::RESCALE_MODE_IN_PLACE);
    experiment.Resize(1);
    for (int round = 0; round < kRounds; ++round) {
      for (const int size : {2, 4, 2, 1}) experiment.Resize(size);
    }
    experiment.Resize(2, /*measured=*/false);
    // Each failure holds the next newcomer back for longer.
    for (int i = 0; i < 3; ++i) experiment.Kill();
    experiment.End();
    const auto pauses = experiment.Pauses();
    for (const auto& [name, values] : pauses) {
      if (!absl::StrContains(name, "killed") && !absl::StrContains(name, "lost"))
        all.insert(all.end(), values.begin(), values.end());
    }
    Add("in place", pauses, &cases);
  }
  if (wanted("restart")) {
    std::fprintf(stderr, "rescale_bench: by restart\n");
    Experiment experiment(&cluster, "restart", 0, v1::RESCALE_MODE_RESTART);
    experiment.Resize(1);
    for (const int size : {2, 4, 2, 1}) experiment.Resize(size);
    experiment.End();
    Add("restart", experiment.Pauses(), &cases);
  }
  if (std::find(parts.begin(), parts.end(), "python") != parts.end()) {
    RunPython(&cluster, kRounds, &cases);
    if (!adaptdl.empty()) RunAdaptdl(&cluster, adaptdl, kRounds / 2, &cases);
  }
  nlohmann::json large;
  if (wanted("large")) large = RunLarge(&cluster, 100'000'000, &cases);
  const nlohmann::json result = {{"pause_ms", {{"p50", Quantile(all, 0.5)}, {"p99", Quantile(all, 0.99)}}},
                                 {"large", large},
                                 {"cases", cases}};
  if (json) {
    std::printf("%s\n", result.dump(2).c_str());
    return 0;
  }
  std::printf("%-28s %-12s %5s %10s %10s %10s\n", "mode", "case", "runs", "p50 ms", "p99 ms", "goal ms");
  for (const auto& one : cases) {
    const std::string goal =
        one.contains("goal_ms") ? absl::StrCat(static_cast<int64_t>(one["goal_ms"].get<double>())) : "";
    std::printf("%-28s %-12s %5d %10.1f %10.1f %10s\n", one["mode"].get<std::string>().c_str(),
                one["case"].get<std::string>().c_str(), one["runs"].get<int>(),
                one["pause_ms"]["p50"].get<double>(), one["pause_ms"]["p99"].get<double>(), goal.c_str());
  }
  if (!large.is_null()) {
    std::printf("broadcast to one other process: %.2f GB/s\n",
                large["broadcast_bytes_per_second"].get<double>() * 1e-9);
  }
  if (all.empty()) return 0;
  std::printf("all in place: p50 %.1f ms, p99 %.1f ms\n", result["pause_ms"]["p50"].get<double>(),
              result["pause_ms"]["p99"].get<double>());
  return 0;
}

}  // namespace
}  // namespace adaptdl::integration

int main(int argc, char** argv) {
  std::vector<std::string> parts(argv + 1, argv + argc);
  const bool json = parts.size() >= 2 && parts[0] == "-o" && parts[1] == "json";
  if (json) parts.erase(parts.begin(), parts.begin() + 2);
  std::string adaptdl;
  if (parts.size() >= 2 && parts[parts.size() - 2] == "--adaptdl") {
    adaptdl = parts.back();
    parts.resize(parts.size() - 2);
  }
  const auto known = [](const std::string& part) {
    return part == "small" || part == "restart" || part == "large" || part == "python";
  };
  if (!std::all_of(parts.begin(), parts.end(), known)) {
    std::fprintf(stderr,
                 "usage: rescale_bench [-o json] [small] [restart] [large] [python [--adaptdl PYTHON]]\n");
    return 2;
  }
  return adaptdl::integration::Main(json, parts, adaptdl);
}
