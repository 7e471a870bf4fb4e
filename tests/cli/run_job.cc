// A small elastic job for tests of "adaptdl run", without LibTorch: takes STEPS steps over data whose numbers
// it adds up, and ends with 3 if a sample was left out or counted twice, over any number of restarts.
//
//   run_job STEPS [WHAT STEP RANK]
//
// WHAT happens at that step on that rank, in the first process of the job only: "term" and "int" send itself
// the signal, "kill" kills it, "kill-saved" once a checkpoint of it is written, "exit" ends it with 5, and "say"
// prints a line and takes its time from then on.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "adaptdl/accumulator.h"
#include "adaptdl/data_loader.h"
#include "adaptdl/env.h"
#include "adaptdl/job.h"
#include "libs/elastic/job/job_core.h"

namespace {

constexpr int64_t kBatch = 12;

struct Event {
  std::string_view what;
  int64_t step = -1;
  int rank = 0;
};

// Steps are faster than the disk: returns once a checkpoint is whole.
void AwaitCheckpoint() {
  const auto whole = [](const std::filesystem::directory_entry& entry) {
    return absl::StartsWith(entry.path().filename().string(), "checkpoint-");
  };
  const auto entries = [] { return std::filesystem::directory_iterator(adaptdl::env::CheckpointPath()); };
  while (std::none_of(begin(entries()), end(entries()), whole)) usleep(1000);
}

void Happen(const Event& event) {
  if (event.what == "term") std::raise(SIGTERM);
  if (event.what == "int") std::raise(SIGINT);
  if (event.what == "kill-saved") AwaitCheckpoint();
  if (event.what.substr(0, 4) == "kill") std::raise(SIGKILL);
  if (event.what == "exit") std::_Exit(5);
  if (event.what != "say") return;
  std::printf("at step %lld\n", static_cast<long long>(event.step));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t steps = std::atoll(argv[1]);
  Event event;
  const char* const restarts = std::getenv("ADAPTDL_NUM_RESTARTS");
  if (argc == 5 && restarts != nullptr && std::string_view(restarts) == "0") {
    event = {argv[2], std::atoll(argv[3]), std::atoi(argv[4])};
  }
  // What it could find out by itself, as programs do that are launched by others.
  const std::string address = absl::StrCat(adaptdl::env::MasterAddr(), ":", adaptdl::env::MasterPort());
  const auto job = adaptdl::InitProcessGroup("gloo", address, adaptdl::env::NumReplicas());
  std::printf("begins at step %lld of rank %d of %d\n", static_cast<long long>(job->optimizer_steps()),
              job->rank(), job->num_replicas());
  std::fflush(stdout);
  adaptdl::Accumulator sums(*job);
  adaptdl::AdaptiveDataLoader loader(*job, steps * kBatch, {.batch_size = kBatch});
  bool slow = false;
  if (loader.BeginLoop()) {
    while (loader.Next()) {
      if (job->optimizer_steps() == event.step && job->rank() == event.rank) {
        slow = true;
        Happen(event);
      }
      if (slow) usleep(1000);
      for (const int64_t index : loader.indices()) {
        if (loader.weight() > 0) sums["indices"] += static_cast<double>(index);
      }
      sums["samples"] += static_cast<double>(loader.weight());
      job->core().loop().OnOptimizerStep(0);
    }
  }
  const auto& totals = sums.Synchronize();
  const auto samples = static_cast<double>(steps * kBatch);
  const bool right = totals.at("samples") == samples && totals.at("indices") == samples * (samples - 1) / 2 &&
                     job->optimizer_steps() == steps;
  std::printf("%s after step %lld\n", right ? "each sample once" : "WRONG",
              static_cast<long long>(job->optimizer_steps()));
  return right ? 0 : 3;
}
