#include "bench/replay/played_training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "adaptdl/scaling_rule.h"
#include "bench/replay/played_model.h"
#include "libs/device/cpu_device.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/step/step_engine.h"
#include "nlohmann/json.hpp"

namespace adaptdl::replay {
namespace {

using simulator::Application;
using simulator::StepTime;
using simulator::StepTimes;
using Time = std::chrono::steady_clock::time_point;

// The drawn gradients have so many entries: few enough to cost nothing, and enough for their norm to be near what it shall
// be. Their noise is a stretch of so many numbers that are drawn once.
constexpr size_t kEntries = size_t{1} << 16;
constexpr size_t kNoise = size_t{1} << 19;

// What the traces say about the place that the job has now.
class Place {
 public:
  // Collective: all replicas make it at the same step.
  Place(Job& job, const Application& application)
      : application_(application),
        group_(job.core().team().membership().group),
        rank_(job.rank()),
        replicas_(job.num_replicas()),
        shape_(application.step_times[0].Resolve(GpusPerNode(job))) {}

  int64_t group() const { return group_; }
  int replicas() const { return replicas_; }
  bool leads() const { return rank_ == 0; }
  // Whether the others wait for this replica.
  bool is_late() const { return rank_ + 1 == replicas_; }

  StepTime TimeOf(int64_t local) const {
    const int64_t most = std::min(application_.max_local[0], shape_.max_local());
    const std::optional<StepTime> time =
        shape_.At(std::clamp(local, application_.min_local[0], std::max(most, application_.min_local[0])));
    if (!time) {
      std::cerr << "error: the traces have no step times of " << local << " samples on " << replicas_
                << " replicas\n";
      std::_Exit(2);
    }
    return *time;
  }

 private:
  static std::vector<int> GpusPerNode(Job& job) {
    const char* node = std::getenv("ADAPTDL_NODE_ID");  // NOLINT(concurrency-mt-unsafe): nobody sets any
    std::map<std::string, int> replicas;
    for (const std::string& name : job.core().team().Gather(node == nullptr ? "" : node)) ++replicas[name];
    std::vector<int> gpus;
    for (const auto& [name, count] : replicas) gpus.push_back(count);
    if (gpus.empty()) gpus.push_back(job.num_replicas());
    return gpus;
  }

  const Application& application_;
  const int64_t group_;
  const int rank_;
  const int replicas_;
  const StepTimes::Shape shape_;
};

// What each change of the group has cost.
class Record {
 public:
  // Empty: there is none.
  explicit Record(const std::string& path) {
    if (!path.empty()) file_.open(path, std::ios::app);
  }

  // `lost`: in seconds.
  void Write(const Place& place, std::optional<double> lost) {
    if (!place.leads() || !file_.is_open()) return;
    const double now =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    nlohmann::json line = {{"time", now}, {"group", place.group()}, {"replicas", place.replicas()}};
    if (lost) line["lost"] = *lost;
    file_ << line.dump() << std::endl;
  }

 private:
  std::ofstream file_;
};

// Scale-invariant steps that the training has really come, which its gradients only let the library estimate.
class PlayedProgress final : public CheckpointState {
 public:
  // Of the job whose replicas meet with this.
  explicit PlayedProgress(Job& job) : job_(job) {
    job_.Expect(this);
    job_.core();
    job_.Register(this);
  }
  ~PlayedProgress() override { job_.Unregister(this); }
  PlayedProgress(const PlayedProgress&) = delete;
  PlayedProgress& operator=(const PlayedProgress&) = delete;

  double steps() const { return steps_; }
  void Advance(double steps) { steps_ += steps; }

  std::string name() const override { return "played-progress"; }
  bool changes_with_steps() const override { return true; }
  std::string Save() override { return {reinterpret_cast<const char*>(&steps_), sizeof(steps_)}; }
  bool Load(const std::string& bytes) override {
    if (bytes.size() != sizeof(steps_)) return false;
    std::memcpy(&steps_, bytes.data(), sizeof(steps_));
    return true;
  }

 private:
  Job& job_;
  double steps_ = 0;
};

}  // namespace

class PlayedTraining::Impl {
 public:
  Impl(Job& job, const Application& application, double compression, const std::string& record)
      : job_(job),
        application_(application),
        compression_(compression),
        record_(record),
        progress_(job),
        model_(kEntries),
        engine_(job, &device::Cpu(), &model_, &optimizer_, Statistics(compression)) {
    std::normal_distribution<float> normal;
    for (float& number : noise_) number = normal(random_);
  }

  // Scale-invariant steps of the whole job.
  int64_t TotalSteps() const {
    const double total = application_.curve.ProgressAfter(application_.curve.epochs() - 1);
    return std::max<int64_t>(static_cast<int64_t>(std::llround(total / compression_)), 1);
  }
  double StepsDone() const { return progress_.steps(); }

  // The micro-batch that the loader has begun.
  void Step(const AdaptiveDataLoader& loader) {
    const int64_t group = job_.core().team().membership().group;
    if (!place_ || place_->group() != group) place_.emplace(job_, application_);
    const StepTime time = place_->TimeOf(loader.local_batch_size());
    double seconds = time.step - time.sync;
    if (loader.is_optimizer_step() && place_->is_late()) seconds += time.sync;
    // What the library itself takes is part of the time, not on top of it.
    const Time now = std::chrono::steady_clock::now();
    const Time begin = fresh_ ? now : std::min(end_, now);
    std::this_thread::sleep_until(
        begin + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds)));
    engine_.ZeroGrad();
    model_.Backward(engine_.exchange(), DrawGradient(loader));
    engine_.Step();
    if (loader.is_optimizer_step() && !job_.step_is_void()) progress_.Advance(GainOf(loader));
    TakeTime(loader, time.step);
  }

 private:
  // Over the same part of the training as without compression, of as many estimates.
  static elastic::StepEngine::Options Statistics(double compression) {
    elastic::StepEngine::Options options;
    options.scaling_rule = std::make_shared<AdaScale>();
    options.statistics_period =
        std::max(1, static_cast<int>(std::lround(options.statistics_period / compression)));
    options.statistics_smoothing = std::pow(options.statistics_smoothing, compression);
    return options;
  }

  goodput::GradParams Gradient(const AdaptiveDataLoader& loader) const {
    return application_.curve.Gradient(application_.curve.Covers(loader.batch_size())
                                           ? loader.batch_size()
                                           : application_.curve.min_batch_size(),
                                       Epoch());
  }

  double GainOf(const AdaptiveDataLoader& loader) const {
    const goodput::GradParams gradient = Gradient(loader);
    const double scale =
        static_cast<double>(loader.batch_size()) / static_cast<double>(application_.init_batch_size());
    return (gradient.var + gradient.sqr) / (gradient.var / scale + gradient.sqr);
  }

  // Its expectation has the recorded squared norm; its variance is that of a mean over so many samples.
  std::vector<float> DrawGradient(const AdaptiveDataLoader& loader) {
    const goodput::GradParams gradient = Gradient(loader);
    const double samples = static_cast<double>(std::max<int64_t>(loader.weight(), 1));
    const double variance = gradient.var * static_cast<double>(application_.init_batch_size()) / samples;
    const auto mean = static_cast<float>(std::sqrt(gradient.sqr / kEntries));
    const auto deviation = static_cast<float>(std::sqrt(variance / kEntries));
    const size_t begin = std::uniform_int_distribution<size_t>(0, kNoise - kEntries)(random_);
    std::vector<float> drawn(kEntries);
    for (size_t i = 0; i < kEntries; ++i) drawn[i] = mean + deviation * noise_[begin + i];
    return drawn;
  }

  int Epoch() const {
    const double progress = progress_.steps() * compression_;
    int epoch = 0;
    while (epoch + 1 < application_.curve.epochs() && application_.curve.ProgressAfter(epoch) <= progress)
      ++epoch;
    return epoch;
  }

  void TakeTime(const AdaptiveDataLoader& loader, double step) {
    const Time now = std::chrono::steady_clock::now();
    if (loader.is_optimizer_step() && !job_.step_is_void() && recorded_ != place_->group()) {
      std::optional<double> lost;
      if (recorded_ != 0) lost = std::chrono::duration<double>(now - step_end_).count() - step;
      record_.Write(*place_, lost);
      recorded_ = place_->group();
    }
    if (loader.is_optimizer_step()) step_end_ = now;
    end_ = now;
    fresh_ = false;
  }

  Job& job_;
  const Application& application_;
  const double compression_;
  Record record_;
  PlayedProgress progress_;
  std::mt19937 random_{std::random_device()()};
  std::vector<float> noise_ = std::vector<float>(kNoise);
  PlayedModel model_;
  PlayedOptimizer optimizer_;
  elastic::StepEngine engine_;
  std::optional<Place> place_;
  // Whether no micro-batch has ended yet; when the last one did, and the last step.
  bool fresh_ = true;
  Time end_;
  Time step_end_;
  // The group whose first step is recorded. 0: none is.
  int64_t recorded_ = 0;
};

PlayedTraining::PlayedTraining(Job& job, const Application& application, double compression,
                               const std::string& record)
    : impl_(std::make_unique<Impl>(job, application, compression, record)) {}

PlayedTraining::~PlayedTraining() = default;

int64_t PlayedTraining::TotalSteps() const { return impl_->TotalSteps(); }
double PlayedTraining::StepsDone() const { return impl_->StepsDone(); }

void PlayedTraining::TrainUntil(double steps, AdaptiveDataLoader* loader) {
  if (!loader->BeginLoop()) return;
  while (loader->Next()) {
    impl_->Step(*loader);
    if (loader->is_optimizer_step() && StepsDone() >= steps) {
      loader->EndLoop();
      return;
    }
  }
}

void Played::AddOptions(CLI::App* app) {
  app->add_option("--traces", traces, "folders that have traces/<application>")->required();
  app->add_option("--application", application)->required();
  app->add_option("--compression", compression, "does so many times less work")->check(CLI::Range(1.0, 20.0));
}

Application Played::Load() const {
  absl::StatusOr<Application> loaded =
      simulator::LoadApplication(traces, application, {"aws"}, simulator::TraceRules::kPollux);
  if (loaded.ok()) return *std::move(loaded);
  std::cerr << "error: " << loaded.status() << '\n';
  std::exit(2);  // NOLINT(concurrency-mt-unsafe): a program that has only begun
}

}  // namespace adaptdl::replay
