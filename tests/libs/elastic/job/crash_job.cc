// A job that does nothing but change its state and checkpoint it, to be killed: crash_job FOLDER.
//
// Its state is two arrays that follow from the step. Restored to anything else it ends with 3.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adaptdl/data_loader.h"
#include "adaptdl/job.h"
#include "libs/elastic/control/standalone_control_plane.h"
#include "libs/elastic/data/philox.h"
#include "libs/elastic/host/process_host.h"
#include "libs/elastic/job/job_core.h"

namespace adaptdl::elastic {
namespace {

constexpr size_t kNumbers = 50'000;

class Numbers final : public CheckpointState {
 public:
  explicit Numbers(std::string name) : name_(std::move(name)), numbers_(kNumbers) { Set(0); }

  std::string name() const override { return name_; }
  std::string Save() override {
    return {reinterpret_cast<const char*>(numbers_.data()), numbers_.size() * sizeof(uint64_t)};
  }
  bool Load(const std::string& bytes) override {
    if (bytes.size() != kNumbers * sizeof(uint64_t)) std::exit(3);
    std::memcpy(numbers_.data(), bytes.data(), bytes.size());
    const std::vector<uint64_t> loaded = numbers_;
    Set(numbers_[0]);
    if (numbers_ != loaded) std::exit(3);
    return true;
  }

  void Set(uint64_t step) {
    numbers_[0] = step;
    for (size_t i = 1; i < numbers_.size(); ++i) numbers_[i] = SplitMix64(step * kNumbers + i);
  }
  uint64_t step() const { return numbers_[0]; }

 private:
  const std::string name_;
  std::vector<uint64_t> numbers_;
};

int Run(const std::string& folder) {
  JobDependencies dependencies;
  dependencies.environment.checkpoint_path = folder;
  dependencies.environment.checkpoint_period_steps = 1;
  dependencies.control = std::make_unique<StandaloneControlPlane>(dependencies.environment);
  dependencies.transport = TransportOfOne();
  dependencies.host = ProcessHost();
  auto core = JobCore::Create(std::move(dependencies));
  if (!core.ok()) return 4;
  Job job(*std::move(core));
  Numbers first("first");
  Numbers second("second");
  job.Register(&first);
  job.Register(&second);
  if (first.step() != second.step() || first.step() != static_cast<uint64_t>(job.optimizer_steps())) return 3;
  std::printf("at step %lld\n", static_cast<long long>(job.optimizer_steps()));
  std::fflush(stdout);
  constexpr int64_t kForever = int64_t{1} << 40;
  AdaptiveDataLoader loader(job, kForever, {.batch_size = 1, .shuffle = false});
  for (loader.BeginLoop(); loader.Next();) {
    const auto step = static_cast<uint64_t>(job.optimizer_steps()) + 1;
    first.Set(step);
    second.Set(step);
    job.core().loop().OnOptimizerStep(0);
  }
  return 0;
}

}  // namespace
}  // namespace adaptdl::elastic

int main(int argc, char** argv) { return argc == 2 ? adaptdl::elastic::Run(argv[1]) : 2; }
