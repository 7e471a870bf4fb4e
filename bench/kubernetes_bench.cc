// What an operator needs to take over a large cluster, and what it then asks of the API server: a double of that with jobs and
// pods as a former leader has left them, the real supervisor, and a crowd of played replicas, one connection each.
//
//   cmake --build --preset release --target kubernetes_bench
//   build/release/bench/kubernetes_bench [-o json] [--jobs 1000] [--replicas 5] [--nodes 200] [--seconds 300]
//
// Parts, in this order: the cluster is made; a supervisor starts, and is awaited until it says that all jobs run with all their
// pods, and has nothing more to do; the replicas join; then the measured time, in which all of them beat and each job tells its
// hints every 30 s, and one job in twenty tells others than before.
//
// All share the machine: what the doubles and the crowd take is told apart.

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "libs/base/process/proc_stat.h"
#include "nlohmann/json.hpp"
#include "tests/integration/kubernetes/scale/scale_run.h"

namespace adaptdl::load {
namespace {

using integration::ScaleRun;

constexpr absl::Duration kPatience = absl::Minutes(10);
// So long without a call, but for Leases, and the supervisor has nothing to do.
constexpr absl::Duration kQuiet = absl::Seconds(3);

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "kubernetes_bench: error: %s\n", status.ToString().c_str());
  std::fflush(nullptr);
  _exit(1);
}

void Say(const std::string& what) { std::fprintf(stderr, "kubernetes_bench: %s\n", what.c_str()); }

double CpuSeconds(pid_t pid) {
  const ProcStat stat = ReadProcStat(pid).value_or(ProcStat{});
  return static_cast<double>(stat.user_ticks + stat.system_ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double PeakMib(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

using Calls = std::map<std::string, int64_t>;

// Of each kind, those that were made since.
Calls Since(const Calls& before, Calls now) {
  for (const auto& [call, count] : before) now[call] -= count;
  std::erase_if(now, [](const auto& entry) { return entry.second == 0; });
  return now;
}

// CPU of all that take part, in seconds, since it was made.
class CpuUse {
 public:
  explicit CpuUse(ScaleRun* run)
      : pids_{{"supervisor", run->supervisor().pid()},
              {"api_server", run->api_server()},
              {"nodes", run->kubelet()},
              {"crowd", getpid()}} {
    for (const auto& [name, pid] : pids_) begin_[name] = CpuSeconds(pid);
  }
  nlohmann::json Used() const {
    nlohmann::json used;
    for (const auto& [name, pid] : pids_) used[name] = CpuSeconds(pid) - begin_.at(name);
    return used;
  }

 private:
  std::map<std::string, pid_t> pids_;
  std::map<std::string, double> begin_;
};

// Until nothing has been asked for a while. When the last call came.
absl::Time AwaitQuiet(const ScaleRun& run) {
  absl::Time last = absl::Now();
  Calls before = run.Calls();
  while (absl::Now() - last < kQuiet) {
    absl::SleepFor(absl::Milliseconds(100));
    Calls now = run.Calls();
    Calls news = Since(before, now);
    std::erase_if(news, [](const auto& entry) { return absl::EndsWith(entry.first, " leases"); });
    if (!news.empty()) last = absl::Now();
    before = std::move(now);
  }
  return last;
}

nlohmann::json TakeOver(ScaleRun* run) {
  const Calls before = run->Calls();
  const absl::Time begin = absl::Now();
  Check(run->StartSupervisor());
  const CpuUse cpu(run);
  Check(run->AwaitTakenOver(kPatience));
  const absl::Duration known = absl::Now() - begin;
  const absl::Duration quiet = AwaitQuiet(*run) - begin;
  nlohmann::json result = {{"seconds_until_all_run", absl::ToDoubleSeconds(known)},
                           {"seconds_until_quiet", absl::ToDoubleSeconds(quiet)},
                           {"cpu_seconds", cpu.Used()},
                           {"calls", Since(before, run->Calls())},
                           {"supervisor_mib", PeakMib(run->supervisor().pid())}};
  Say(absl::StrCat("taken over: ", result.dump()));
  return result;
}

nlohmann::json Join(ScaleRun* run) {
  const CpuUse cpu(run);
  const Calls before = run->Calls();
  const absl::Time begin = absl::Now();
  Check(run->StartReplicas(kPatience));
  nlohmann::json result = {{"seconds", absl::ToDoubleSeconds(absl::Now() - begin)},
                           {"cpu_seconds", cpu.Used()},
                           {"calls", Since(before, run->Calls())}};
  Say(absl::StrCat("replicas have joined: ", result.dump()));
  return result;
}

nlohmann::json Run(ScaleRun* run, int seconds, int changed_jobs) {
  Check(run->AwaitHints(kPatience));
  run->crowd().heartbeats.Take();
  const CpuUse cpu(run);
  const Calls before = run->Calls();
  const absl::Time begin = absl::Now();
  run->ChangeHints(changed_jobs);
  absl::SleepFor(absl::Seconds(seconds));
  const double minutes = absl::ToDoubleMinutes(absl::Now() - begin);
  const Calls calls = Since(before, run->Calls());
  nlohmann::json rates;
  for (const auto& [call, count] : calls) rates[call] = static_cast<double>(count) / minutes;
  Check(run->crowd().dropped == 0 ? absl::OkStatus()
                                  : absl::InternalError("connections of replicas were lost"));
  return {{"minutes", minutes},
          {"jobs_with_other_hints", changed_jobs},
          {"calls", calls},
          {"calls_per_minute", rates},
          {"changes", ScaleRun::Changes(calls)},
          {"cpu_seconds", cpu.Used()},
          {"supervisor_mib", PeakMib(run->supervisor().pid())}};
}

int64_t Total(const nlohmann::json& calls) {
  int64_t total = 0;
  for (const auto& [call, count] : calls.items()) total += count.get<int64_t>();
  return total;
}

// One line, as docs/results.md has it.
void Print(const nlohmann::json& result) {
  const nlohmann::json& taken = result["take_over"];
  const nlohmann::json& run = result["run"];
  const auto seconds = [](const nlohmann::json& value) {
    return absl::StrFormat("%.1f s", value.get<double>());
  };
  std::printf(
      "kubernetes: %s\n",
      absl::StrCat(
          result["jobs"].get<int>(), " jobs with ", result["pods"].get<int>(), " pods taken over in ",
          seconds(taken["seconds_until_quiet"]), " (CPU: supervisor ",
          seconds(taken["cpu_seconds"]["supervisor"]), ", double of the API server ",
          seconds(taken["cpu_seconds"]["api_server"]), "; ",
          Total(ScaleRun::Changes(taken["calls"].get<Calls>())), " changes, ",
          taken["supervisor_mib"].get<int>(), " MiB); all replicas joined in ",
          seconds(result["join"]["seconds"]), "; then in ",
          absl::StrFormat("%.0f", run["minutes"].get<double>()), " min ", Total(run["changes"]),
          " changes for ", run["jobs_with_other_hints"].get<int>(), " jobs with other hints, and ",
          absl::StrFormat("%.0f", static_cast<double>(Total(run["calls"])) / run["minutes"].get<double>()),
          " calls a minute in all (CPU a minute: supervisor ",
          seconds(run["cpu_seconds"]["supervisor"].get<double>() / run["minutes"].get<double>()), "; ",
          run["supervisor_mib"].get<int>(), " MiB)")
          .c_str());
}

// What is promised.
void CheckPromises(const nlohmann::json& result) {
  constexpr double kLongest = 10;
  const double seconds = result["take_over"]["seconds_until_quiet"].get<double>();
  Check(seconds < kLongest ? absl::OkStatus()
                           : absl::InternalError(absl::StrCat("to take over took ", seconds, " s, more than ",
                                                              kLongest, " s")));
  const Calls early = ScaleRun::Changes(result["take_over"]["calls"].get<Calls>());
  const Calls joining = ScaleRun::Changes(result["join"]["calls"].get<Calls>());
  Check(early.empty() && joining.empty() ? absl::OkStatus()
                                         : absl::InternalError("it has written what it found"));
  const Calls expected = {
      {"patch adaptdljobs/status", result["run"]["jobs_with_other_hints"].get<int64_t>()}};
  Check(result["run"]["changes"].get<Calls>() == expected
            ? absl::OkStatus()
            : absl::InternalError(
                  absl::StrCat("other changes than of hints: ", result["run"]["changes"].dump())));
}

void RaiseFileLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int Main(int argc, char** argv) {
  CLI::App app{"What an operator needs to take over a large cluster"};
  integration::ScaleOptions options;
  options.jobs = 1000;
  options.nodes = 200;
  int seconds = 300;
  std::string output = "text";
  bool check = false;
  app.add_option("--jobs", options.jobs)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--replicas", options.replicas_per_job, "Of each job")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--nodes", options.nodes)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--seconds", seconds, "Measured time")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_flag("--check", check, "Fail if it took longer than 10 s, or more was written than hints");
  app.add_option("-o,--output", output)->capture_default_str()->check(CLI::IsMember({"text", "json"}));
  CLI11_PARSE(app, argc, argv);
  RaiseFileLimit();
  // The search for lock cycles has one lock for all locks, and would be what is measured.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  auto* run = new ScaleRun(options);
  Check(run->Prepare());
  Say("the cluster is there");
  nlohmann::json result = {
      {"jobs", options.jobs}, {"pods", options.jobs * options.replicas_per_job}, {"nodes", options.nodes}};
  result["take_over"] = TakeOver(run);
  result["join"] = Join(run);
  result["run"] = Run(run, seconds, options.jobs / 20);
  if (output == "json") {
    std::printf("%s\n", result.dump(2).c_str());
  } else {
    Print(result);
  }
  std::fflush(nullptr);
  if (check) CheckPromises(result);
  run->crowd().ending = true;
  run->Stop();
  std::fflush(nullptr);
  // The streams of the crowd are never closed.
  _exit(0);
}

}  // namespace
}  // namespace adaptdl::load

int main(int argc, char** argv) { return adaptdl::load::Main(argc, argv); }
