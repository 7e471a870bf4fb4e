// The training program of replay_bench: trains as a recorded application did, by the training library, without its
// model. See --help.
//
// It takes each step as long as the traces say for the nodes it runs on and its batch size: computation is time that
// the process sleeps, and the last rank begins to exchange its gradients later by the recorded time of that, so that
// all others wait for it as long as the exchange took. (So what the last rank itself measures has no exchange in it,
// should it ever become the first.) Its gradients are drawn such that their norm and variance are those that were
// recorded at this point of the training. Compressed by C it has C times less to do, at the recorded speed.
//
// Writes a line of JSON to --record whenever a group's first step is done: "time" (Unix, s), "group", "replicas", and
// "lost" (s): what the change to it has cost beyond the step itself; absent of the process's first group.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "adaptdl/data_loader.h"
#include "adaptdl/epochs.h"
#include "adaptdl/job.h"
#include "adaptdl/scaling_rule.h"
#include "bench/replay/played_model.h"
#include "libs/device/cpu_device.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/step/step_engine.h"
#include "nlohmann/json.hpp"
#include "simulator/traces/application.h"

namespace {

using adaptdl::simulator::Application;
using adaptdl::simulator::StepTime;
using adaptdl::simulator::StepTimes;
using Time = std::chrono::steady_clock::time_point;

// The drawn gradients have so many entries: few enough to cost nothing, and enough for their norm to be near what it shall
// be. Their noise is a stretch of so many numbers that are drawn once.
constexpr size_t kEntries = size_t{1} << 16;
constexpr size_t kNoise = size_t{1} << 19;

struct Options {
  std::vector<std::string> traces;
  std::string application;
  double compression = 1;
  // 0: it adapts.
  int64_t batch_size = 0;
  std::string record;
};

Options Parse(int argc, char** argv) {
  Options options;
  CLI::App app{"Trains as a recorded application did, in step times and gradients, without its model."};
  app.add_option("--traces", options.traces, "folders that have traces/<application>")->required();
  app.add_option("--application", options.application)->required();
  app.add_option("--compression", options.compression, "does so many times less work")
      ->check(CLI::Range(1.0, 20.0));
  app.add_option("--batch-size", options.batch_size, "keeps this total batch size; 0: adapts it");
  app.add_option("--record", options.record, "file to append what changes of the group have cost")
      ->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));  // NOLINT(concurrency-mt-unsafe): the only thread
  }
  return options;
}

// What the traces say about the place that the job has now.
class Place {
 public:
  // Collective: all replicas make it at the same step.
  Place(adaptdl::Job& job, const Application& application)
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
      std::cerr << "played_job: error: the traces have no step times of " << local << " samples on "
                << replicas_ << " replicas\n";
      std::_Exit(2);
    }
    return *time;
  }

 private:
  static std::vector<int> GpusPerNode(adaptdl::Job& job) {
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
  explicit Record(const std::string& path) : file_(path, std::ios::app) {}

  // `lost`: in seconds.
  void Write(const Place& place, std::optional<double> lost) {
    if (!place.leads()) return;
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
class PlayedProgress final : public adaptdl::CheckpointState {
 public:
  // Of the job whose replicas meet with this.
  explicit PlayedProgress(adaptdl::Job& job) : job_(job) {
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
  adaptdl::Job& job_;
  double steps_ = 0;
};

class PlayedTraining {
 public:
  PlayedTraining(adaptdl::Job& job, const Application& application, const Options& options)
      : job_(job),
        application_(application),
        compression_(options.compression),
        record_(options.record),
        progress_(job),
        model_(kEntries),
        engine_(job, &adaptdl::device::Cpu(), &model_, &optimizer_, Statistics(options.compression)) {
    std::normal_distribution<float> normal;
    for (float& number : noise_) number = normal(random_);
  }

  // Scale-invariant steps of the whole job.
  int64_t TotalSteps() const {
    const double total = application_.curve.ProgressAfter(application_.curve.epochs() - 1);
    return std::max<int64_t>(static_cast<int64_t>(std::llround(total / compression_)), 1);
  }
  bool is_done() const { return progress_.steps() >= static_cast<double>(TotalSteps()); }

  // The micro-batch that the loader has begun.
  void Step(const adaptdl::AdaptiveDataLoader& loader) {
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
  static adaptdl::elastic::StepEngine::Options Statistics(double compression) {
    adaptdl::elastic::StepEngine::Options options;
    options.scaling_rule = std::make_shared<adaptdl::AdaScale>();
    options.statistics_period =
        std::max(1, static_cast<int>(std::lround(options.statistics_period / compression)));
    options.statistics_smoothing = std::pow(options.statistics_smoothing, compression);
    return options;
  }

  adaptdl::goodput::GradParams Gradient(const adaptdl::AdaptiveDataLoader& loader) const {
    return application_.curve.Gradient(application_.curve.Covers(loader.batch_size())
                                           ? loader.batch_size()
                                           : application_.curve.min_batch_size(),
                                       Epoch());
  }

  double GainOf(const adaptdl::AdaptiveDataLoader& loader) const {
    const adaptdl::goodput::GradParams gradient = Gradient(loader);
    const double scale =
        static_cast<double>(loader.batch_size()) / static_cast<double>(application_.init_batch_size());
    return (gradient.var + gradient.sqr) / (gradient.var / scale + gradient.sqr);
  }

  // Its expectation has the recorded squared norm; its variance is that of a mean over so many samples.
  std::vector<float> DrawGradient(const adaptdl::AdaptiveDataLoader& loader) {
    const adaptdl::goodput::GradParams gradient = Gradient(loader);
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

  void TakeTime(const adaptdl::AdaptiveDataLoader& loader, double step) {
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

  adaptdl::Job& job_;
  const Application& application_;
  const double compression_;
  Record record_;
  PlayedProgress progress_;
  std::mt19937 random_{std::random_device()()};
  std::vector<float> noise_ = std::vector<float>(kNoise);
  adaptdl::replay::PlayedModel model_;
  adaptdl::replay::PlayedOptimizer optimizer_;
  adaptdl::elastic::StepEngine engine_;
  std::optional<Place> place_;
  // Whether no micro-batch has ended yet; when the last one did, and the last step.
  bool fresh_ = true;
  Time end_;
  Time step_end_;
  // The group whose first step is recorded. 0: none is.
  int64_t recorded_ = 0;
};

// Its batch size is what the library finds best. The library counts what the gradients leave certain, and so never too much:
// what is really done ends the training.
void TrainAdaptively(adaptdl::Job& job, const Application& application, const Options& options) {
  PlayedTraining training(job, application, options);
  const int64_t batch_size = application.init_batch_size();
  adaptdl::AdaptiveDataLoader loader(job, training.TotalSteps() * batch_size,
                                     {.batch_size = batch_size, .shuffle = false});
  loader.AutoscaleBatchSize(application.max_batch_size(),
                            {application.min_local[0], application.max_local[0]}, application.accumulation);
  for ([[maybe_unused]] const int epoch : adaptdl::RemainingEpochsUntil(job, 1)) {
    if (!loader.BeginLoop()) continue;
    while (loader.Next()) {
      training.Step(loader);
      if (loader.is_optimizer_step() && training.is_done()) {
        loader.EndLoop();
        break;
      }
    }
  }
}

// As long as it takes for the same progress.
void TrainWithFixedBatch(adaptdl::Job& job, const Application& application, const Options& options) {
  PlayedTraining training(job, application, options);
  constexpr int64_t kForever = int64_t{1} << 40;
  adaptdl::AdaptiveDataLoader loader(job, kForever,
                                     {.batch_size = options.batch_size,
                                      .base_batch_size = application.init_batch_size(),
                                      .shuffle = false,
                                      .max_local_batch_size = application.max_local[0]});
  for ([[maybe_unused]] const int epoch : adaptdl::RemainingEpochsUntil(job, 1)) {
    if (!loader.BeginLoop()) continue;
    while (loader.Next()) {
      training.Step(loader);
      if (loader.is_optimizer_step() && training.is_done()) {
        loader.EndLoop();
        break;
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  const auto job = adaptdl::Init();
  const absl::StatusOr<Application> application = adaptdl::simulator::LoadApplication(
      options.traces, options.application, {"aws"}, adaptdl::simulator::TraceRules::kPollux);
  if (!application.ok()) {
    std::cerr << "played_job: error: " << application.status() << '\n';
    return 2;
  }
  if (options.batch_size > 0) {
    TrainWithFixedBatch(*job, *application, options);
  } else {
    TrainAdaptively(*job, *application, options);
  }
}
