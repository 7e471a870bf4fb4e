// Training over re-scales in place, with and without losses, is the training of one replica: each sample of a
// pass is in one step, no step is taken twice or left out, and the parameters in the end are the same.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "adaptdl/accumulator.h"
#include "adaptdl/data_loader.h"
#include "adaptdl/data_parallel.h"
#include "adaptdl/epochs.h"
#include "adaptdl/torch_lr_scheduler.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "tests/libs/elastic/group/losing_communicator.h"
#include "tests/libs/elastic/regression_samples.h"
#include "tests/libs/elastic/replica_threads.h"
#include "torch/nn/functional.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/schedulers/step_lr.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

namespace adaptdl::elastic {
namespace {

constexpr int64_t kSamples = 53;
constexpr int64_t kBatch = 8;
constexpr int kEpochs = 6;
constexpr int64_t kSteps = kEpochs * ((kSamples + kBatch - 1) / kBatch);

// What happens before a step's backward pass, while it is under way elsewhere, or never. The exchange comes
// to its end nowhere; on rank 0 only; or there, and the last member dies. A member dies after its backward
// pass.
enum class Event {
  kNone,
  kGrow,
  kShrink,
  kDeath,
  kHalfDone,
  kUndone,
  kHalfDoneAndDeath,
  kDeathAfterBackward
};

// What the body of the loop does beside its step.
struct Program {
  // Sums over all replicas before the backward pass, or between it and the step.
  bool gathers_before = false;
  bool gathers_between = false;
  // Rank 0 changes the batch size all the time.
  bool adapts = false;
};

constexpr int64_t kLargestBatch = 24;

// A supervisor in small: it sizes the job, and plans the next group when members are lost. Thread-safe.
class Planner {
 public:
  explicit Planner(std::map<int64_t, Event> events, const Program& program = {})
      : program_(program), events_(std::move(events)) {
    RunOptions options;
    options.plans_groups = true;
    // So that newcomers are handed the model into its place.
    options.meet_in_body = true;
    options.on_broken = [this](const std::string& name, int64_t group) { OnBroken(name, group); };
    options.on_end = [this](const std::string& name, int code) { OnEnd(name, code); };
    options.wrap = [this](std::unique_ptr<comm::Communicator> inner, const GroupMembership& group) {
      return Wrap(std::move(inner), group);
    };
    replicas_ = std::make_unique<ReplicaThreads>(options);
  }

  void Run(int size) {
    {
      MutexLock lock(&mutex_);
      for (int i = 0; i < size; ++i) members_.push_back(NewName());
      for (int i = 0; i < size; ++i) {
        entered_.insert(members_[i]);
        Start(members_[i], {.group = 1, .rank = i, .world_size = size});
      }
    }
    replicas_->Join();
  }

  const std::vector<float>& parameters() const { return parameters_; }
  const std::map<int64_t, std::vector<int64_t>>& steps() const { return steps_; }
  int finished() const { return finished_; }
  int64_t groups() const { return group_; }
  double learning_rate() const { return learning_rate_; }
  // Samples that were summed up, of those replicas that came to the end.
  const std::vector<double>& sums() const { return sums_; }
  // Whether all replicas came to the same parameters, bit for bit, after each step; and what they took for
  // the size of its batch.
  bool always_alike() const { return always_alike_; }
  const std::map<int64_t, std::set<std::pair<int64_t, double>>>& batches() const { return batches_; }

 private:
  std::string NewName() { return absl::StrCat("replica ", next_name_++); }

  void Start(const std::string& name, const GroupMembership& membership) {
    replicas_->Start(name, membership, [this, name](Replica& replica) { Train(name, replica); });
  }

  void Train(const std::string& name, Replica& replica) {
    const RegressionSamples samples = MakeRegressionSamples(kSamples);
    torch::nn::Linear model(3, 1);
    {
      torch::NoGradGuard no_gradients;
      // Newcomers have other parameters than rank 0 begins with.
      for (torch::Tensor& parameter : model->parameters()) parameter.fill_(name == "replica 0" ? 0.1 : 7.0);
    }
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    AdaptiveDataParallel parallel(replica.job, *model, optimizer);
    LrScheduler<torch::optim::StepLR> schedule(replica.job, "schedule", optimizer, 10, 0.7);
    AdaptiveDataLoader loader(replica.job, kSamples, {.batch_size = kBatch, .seed = 11});
    if (program_.adapts) loader.AutoscaleBatchSize(kLargestBatch, {}, /*accumulation=*/true);
    Accumulator sums(replica.job);
    for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, kEpochs)) {
      if (!loader.BeginLoop()) continue;
      while (loader.Next()) {
        OnStep(name, replica);
        if (program_.adapts) Propose(replica, loader);
        const int64_t step = replica.job.optimizer_steps();
        const torch::Tensor indices = torch::tensor(loader.indices());
        if (program_.gathers_before) {
          sums["before"] += static_cast<double>(loader.weight());
          sums.Synchronize();
        }
        parallel.ZeroGrad();
        torch::nn::functional::mse_loss(model->forward(samples.inputs.index_select(0, indices)),
                                        samples.targets.index_select(0, indices))
            .backward();
        if (loader.is_optimizer_step()) DieAfterBackward(name);
        if (program_.gathers_between) {
          sums["between"] += static_cast<double>(loader.weight());
          sums.Synchronize();
        }
        parallel.Step();
        if (!loader.is_optimizer_step()) continue;
        schedule.step();
        // Taken with this share, unless it was taken by others from another member's part.
        if (replica.job.optimizer_steps() == step + 1) Note(step, loader, replica, model->parameters());
      }
    }
    sums.Synchronize();
    MutexLock lock(&mutex_);
    ++finished_;
    sums_.push_back(program_.gathers_before ? sums["before"] : sums["between"]);
    learning_rate_ = optimizer.param_groups()[0].options().get_lr();
    parameters_.clear();
    for (const torch::Tensor& parameter : model->parameters()) {
      const float* data = parameter.data_ptr<float>();
      parameters_.insert(parameters_.end(), data, data + parameter.numel());
    }
  }

  void Note(int64_t step, const AdaptiveDataLoader& loader, Replica& replica,
            const std::vector<torch::Tensor>& parameters) {
    std::vector<float> numbers;
    for (const torch::Tensor& parameter : parameters) {
      const float* data = parameter.data_ptr<float>();
      numbers.insert(numbers.end(), data, data + parameter.numel());
    }
    MutexLock lock(&mutex_);
    auto& samples = steps_[step];
    samples.insert(samples.end(), loader.indices().begin(), loader.indices().begin() + loader.weight());
    const auto [others, first] = parameters_after_.try_emplace(step, numbers);
    always_alike_ = always_alike_ && others->second == numbers;
    batches_[step].insert({loader.batch_size(), replica.job.core().step().micro_batch().scale});
  }

  // By the step's number, so that a step that is taken again has the same proposal.
  void Propose(Replica& replica, const AdaptiveDataLoader& loader) {
    if (replica.job.rank() != 0 || !loader.is_optimizer_step()) return;
    const int64_t replicas = replica.job.num_replicas();
    const int64_t atomic = 1 + replica.job.optimizer_steps() * 7 % 5;
    const int64_t most = kLargestBatch / replicas / atomic;
    if (most < 1) return;
    const int64_t micro_batches = 1 + replica.job.optimizer_steps() % most;
    if (atomic * micro_batches * replicas < kBatch) return;
    replica.job.core().batches().Propose({atomic, micro_batches - 1},
                                         replica.job.core().team().membership().group);
  }

  void DieAfterBackward(const std::string& name) {
    MutexLock lock(&mutex_);
    if (dies_after_backward_ != name) return;
    dies_after_backward_.clear();
    throw ReplicaDeath();
  }

  void OnStep(const std::string& name, Replica& replica) {
    bool dies = false;
    {
      MutexLock lock(&mutex_);
      entered_.insert(name);
      const int64_t step = replica.job.optimizer_steps();
      if (planned_ && replica.job.core().team().membership().group == group_) planned_ = false;
      if (planned_ || step < next_step_ || events_.empty() || events_.begin()->first > step) return;
      const Event event = events_.begin()->second;
      const auto size = static_cast<int>(members_.size());
      if (event == Event::kDeath && (size == 1 || members_.back() != name)) return;
      events_.erase(events_.begin());
      next_step_ = step + 1;
      if (event == Event::kGrow) Resize(size + 1 + static_cast<int>(step % 2));
      if (event == Event::kShrink && size > 1) Resize(size - 1);
      if (event == Event::kHalfDone && size > 1) half_done_ = group_;
      if (event == Event::kUndone && size > 1) undone_ = group_;
      if (event == Event::kHalfDoneAndDeath && size > 1) {
        half_done_ = group_;
        dies_when_broken_ = members_.back();
      }
      if (event == Event::kDeathAfterBackward && size > 1) dies_after_backward_ = members_.back();
      dies = event == Event::kDeath;
    }
    if (dies) throw ReplicaDeath();
  }

  // Survivors first. The mutex is held.
  void Resize(int size) {
    const std::vector<std::string> before = members_;
    ++group_;
    planned_ = true;
    members_.resize(std::min<size_t>(before.size(), size));
    const int newcomers = size - static_cast<int>(members_.size());
    for (int i = 0; i < newcomers; ++i) {
      members_.push_back(NewName());
      Start(members_.back(),
            {.group = group_, .rank = size - newcomers + i, .world_size = size, .newcomers = newcomers});
    }
    Announce(before, newcomers);
  }

  // What is left of the members that have a place in the program. The mutex is held.
  void Recover() {
    const std::vector<std::string> before = members_;
    std::erase_if(members_, [this](const auto& name) { return !entered_.contains(name); });
    ++group_;
    planned_ = true;
    broken_.clear();
    Announce(before, 0);
  }

  void Announce(const std::vector<std::string>& to, int newcomers) {
    newcomers_ = newcomers;
    for (const std::string& name : to) {
      const auto member = std::find(members_.begin(), members_.end(), name);
      GroupMembership next;
      next.group = group_;
      next.rank = member == members_.end() ? -1 : static_cast<int>(member - members_.begin());
      next.world_size = static_cast<int>(members_.size());
      next.newcomers = newcomers;
      replicas_->Plan({{name, next}});
    }
  }

  void OnBroken(const std::string& name, int64_t group) {
    MutexLock lock(&mutex_);
    if (dies_when_broken_ == name) {
      dies_when_broken_.clear();
      throw ReplicaDeath();
    }
    // The newest plan is the answer, unless members of a broken group may not follow it.
    if (group < group_ && newcomers_ == 0) return;
    broken_.insert(name);
    const bool all = std::all_of(members_.begin(), members_.end(), [this](const auto& member) {
      return broken_.contains(member) || !entered_.contains(member);
    });
    if (all) Recover();
  }

  void OnEnd(const std::string& name, int code) {
    MutexLock lock(&mutex_);
    entered_.erase(name);
    broken_.erase(name);
    const auto removed = std::erase(members_, name);
    if (code == kDied && removed > 0 && !members_.empty()) Recover();
  }

  std::unique_ptr<comm::Communicator> Wrap(std::unique_ptr<comm::Communicator> inner,
                                           const GroupMembership& group) {
    const int64_t number = group.group;
    // Rank 0 receives the gradients and the others do not; or nobody.
    return std::make_unique<LosingCommunicator>(
        std::move(inner), [this, number, rank = group.rank](comm::Collective::Kind kind) {
          if (kind != comm::Collective::Kind::kAllReduce) return false;
          MutexLock lock(&mutex_);
          return (half_done_ == number && rank > 0) || undone_ == number;
        });
  }

  const Program program_;
  Mutex mutex_;
  std::map<int64_t, Event> events_ ABSL_GUARDED_BY(mutex_);
  int next_name_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t next_step_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t group_ ABSL_GUARDED_BY(mutex_) = 1;
  // Of the newest group.
  int newcomers_ ABSL_GUARDED_BY(mutex_) = 0;
  // Whether the newest group was announced and has taken no step.
  bool planned_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t half_done_ ABSL_GUARDED_BY(mutex_) = -1;
  int64_t undone_ ABSL_GUARDED_BY(mutex_) = -1;
  // Members that are to die. Empty: none.
  std::string dies_when_broken_ ABSL_GUARDED_BY(mutex_);
  std::string dies_after_backward_ ABSL_GUARDED_BY(mutex_);
  // Of the newest group, in order of rank.
  std::vector<std::string> members_ ABSL_GUARDED_BY(mutex_);
  // Replicas that have a place in the program.
  std::set<std::string> entered_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> broken_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, std::vector<int64_t>> steps_;
  std::map<int64_t, std::vector<float>> parameters_after_;
  std::map<int64_t, std::set<std::pair<int64_t, double>>> batches_;
  bool always_alike_ = true;
  std::vector<double> sums_;
  std::vector<float> parameters_;
  double learning_rate_ = 0;
  int finished_ = 0;
  std::unique_ptr<ReplicaThreads> replicas_;
};

void ExpectSameTraining(const Planner& planner, const std::vector<float>& expected) {
  ASSERT_GE(planner.finished(), 1);
  EXPECT_TRUE(planner.always_alike());
  EXPECT_EQ(static_cast<int64_t>(planner.steps().size()), kSteps);
  ASSERT_EQ(planner.parameters().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(planner.parameters()[i], expected[i], 1e-4 * std::max(1.0F, std::abs(expected[i])));
  }
}

class InPlaceTrainingTest : public ::testing::Test {
 protected:
  static const std::vector<float>& Undisturbed() {
    static const std::vector<float> parameters = [] {
      Planner alone({});
      alone.Run(1);
      return alone.parameters();
    }();
    return parameters;
  }
};

TEST_F(InPlaceTrainingTest, GrowingAndShrinkingChangeNothing) {
  Planner planner({{3, Event::kGrow}, {9, Event::kGrow}, {15, Event::kShrink}, {22, Event::kShrink}});
  planner.Run(1);
  ExpectSameTraining(planner, Undisturbed());
  EXPECT_EQ(planner.groups(), 5);
  std::map<int64_t, int> uses;
  for (const auto& [step, samples] : planner.steps()) {
    for (int64_t sample : samples) ++uses[sample];
  }
  for (int64_t i = 0; i < kSamples; ++i) EXPECT_EQ(uses[i], kEpochs) << "sample " << i;
}

TEST_F(InPlaceTrainingTest, AStepThatNobodyCompletedIsBegunAnew) {
  Planner planner({{5, Event::kUndone}, {20, Event::kUndone}});
  planner.Run(3);
  ExpectSameTraining(planner, Undisturbed());
  EXPECT_EQ(planner.groups(), 3);
}

TEST_F(InPlaceTrainingTest, AStepThatOneMemberCompletedIsTakenOverByTheOthers) {
  Planner planner({{5, Event::kHalfDone}, {20, Event::kHalfDone}});
  planner.Run(3);
  ExpectSameTraining(planner, Undisturbed());
  EXPECT_EQ(planner.groups(), 3);
}

TEST_F(InPlaceTrainingTest, ALostReplicaTakesNoStepWithIt) {
  Planner planner({{5, Event::kDeath}, {20, Event::kDeath}});
  planner.Run(3);
  ExpectSameTraining(planner, Undisturbed());
  EXPECT_EQ(planner.finished(), 1);
}

// The step has all gradients, those of the lost member too.
TEST_F(InPlaceTrainingTest, AMemberThatDiesBetweenBackwardAndStepTakesNoGradientsWithIt) {
  Planner planner({{5, Event::kDeathAfterBackward}, {20, Event::kDeathAfterBackward}},
                  {.gathers_between = true});
  planner.Run(3);
  ExpectSameTraining(planner, Undisturbed());
  EXPECT_EQ(planner.finished(), 1);
}

TEST_F(InPlaceTrainingTest, WhatASumInAStepThatCameToNothingHasAddedIsTakenBack) {
  for (const Event event : {Event::kUndone, Event::kHalfDone}) {
    for (const bool before : {false, true}) {
      Planner planner({{5, event}, {20, event}}, {.gathers_before = before, .gathers_between = !before});
      planner.Run(3);
      ExpectSameTraining(planner, Undisturbed());
      EXPECT_EQ(planner.groups(), 3);
      EXPECT_EQ(planner.sums(), std::vector<double>(3, kEpochs * kSamples));
    }
  }
}

TEST_F(InPlaceTrainingTest, AnyScheduleOfChangesAndLossesGivesTheSameModel) {
  std::mt19937 random(7);
  for (int run = 0; run < 80; ++run) {
    std::map<int64_t, Event> events;
    const int count = 2 + static_cast<int>(random() % 12);
    for (int i = 0; i < count; ++i) {
      events[random() % (kSteps - 1)] = static_cast<Event>(1 + random() % 7);
    }
    // Half of them as most programs are.
    const Program program = {.gathers_before = run % 2 == 1 && run % 8 > 3,
                             .gathers_between = run % 2 == 1 && run % 4 > 1};
    Planner planner(events, program);
    planner.Run(1 + static_cast<int>(random() % 4));
    ExpectSameTraining(planner, Undisturbed());
    if (HasFailure()) FAIL() << "in run " << run;
  }
}

// A change of the batch size rides on a step that only rank 0 completes before a member dies: the others
// learn of it as a smaller group.
TEST_F(InPlaceTrainingTest, AllComeToTheSameBatchWhenAMemberDiesInTheStepThatDecidedOnIt) {
  std::mt19937 random(11);
  for (int run = 0; run < 40; ++run) {
    std::map<int64_t, Event> events;
    const int count = 2 + static_cast<int>(random() % 6);
    for (int i = 0; i < count; ++i) {
      const Event any = static_cast<Event>(1 + random() % 7);
      events[random() % 25] = random() % 2 == 0 ? Event::kHalfDoneAndDeath : any;
    }
    Planner planner(events, {.gathers_between = run % 4 == 3, .adapts = true});
    planner.Run(2 + static_cast<int>(random() % 4));
    ASSERT_GE(planner.finished(), 1);
    EXPECT_TRUE(planner.always_alike());
    for (const auto& [step, batches] : planner.batches()) EXPECT_EQ(batches.size(), 1u) << "step " << step;
    if (HasFailure()) FAIL() << "in run " << run;
  }
}

}  // namespace
}  // namespace adaptdl::elastic
