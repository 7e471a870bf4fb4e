// A job whose replicas come, go and are lost while it trains, as threads of the test, with a supervisor in small.
//
//   class MyPlanner : public InPlacePlanner { void Train(name, replica) override { ... } };
//   MyPlanner planner({{3, Event::kGrow}, {9, Event::kDeath}});
//   planner.Run(2);
//   ExpectSameTraining(planner, parameters of a run without events);

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_IN_PLACE_PLANNER_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_IN_PLACE_PLANNER_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "adaptdl/data_loader.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "tests/libs/elastic/group/losing_communicator.h"
#include "tests/libs/elastic/replica_threads.h"

namespace adaptdl::elastic {

inline constexpr int64_t kSamples = 53;
inline constexpr int64_t kBatch = 8;
inline constexpr int kEpochs = 6;
inline constexpr int64_t kSteps = kEpochs * ((kSamples + kBatch - 1) / kBatch);

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

inline constexpr int64_t kLargestBatch = 24;

// A supervisor in small: it sizes the job, and plans the next group when members are lost. Thread-safe.
class InPlacePlanner {
 public:
  explicit InPlacePlanner(std::map<int64_t, Event> events, const Program& program = {})
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

  virtual ~InPlacePlanner() = default;
  InPlacePlanner(const InPlacePlanner&) = delete;
  InPlacePlanner& operator=(const InPlacePlanner&) = delete;

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

 protected:
  // The program of one replica; it tells of what it does by the methods below.
  virtual void Train(const std::string& name, Replica& replica) = 0;
  // What the members of a group exchange gradients over.
  virtual std::unique_ptr<comm::Communicator> OnDevice(std::unique_ptr<comm::Communicator> inner) {
    return inner;
  }

  const Program& program() const { return program_; }

  // The step was taken with this share, and the model is this now.
  void Note(int64_t step, const AdaptiveDataLoader& loader, Replica& replica,
            const std::vector<float>& parameters) {
    MutexLock lock(&mutex_);
    auto& samples = steps_[step];
    samples.insert(samples.end(), loader.indices().begin(), loader.indices().begin() + loader.weight());
    const auto [others, first] = parameters_after_.try_emplace(step, parameters);
    always_alike_ = always_alike_ && others->second == parameters;
    batches_[step].insert({loader.batch_size(), replica.job.core().step().micro_batch().scale});
  }

  // The training is over, and this came out.
  void Finish(double sum, double learning_rate, std::vector<float> parameters) {
    MutexLock lock(&mutex_);
    ++finished_;
    sums_.push_back(sum);
    learning_rate_ = learning_rate;
    parameters_ = std::move(parameters);
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

 private:
  std::string NewName() { return absl::StrCat("replica ", next_name_++); }

  void Start(const std::string& name, const GroupMembership& membership) {
    replicas_->Start(name, membership, [this, name](Replica& replica) { Train(name, replica); });
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
    return OnDevice(std::make_unique<LosingCommunicator>(
        std::move(inner), [this, number, rank = group.rank](comm::Collective::Kind kind) {
          if (kind != comm::Collective::Kind::kAllReduce) return false;
          MutexLock lock(&mutex_);
          return (half_done_ == number && rank > 0) || undone_ == number;
        }));
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

inline void ExpectSameTraining(const InPlacePlanner& planner, const std::vector<float>& expected) {
  ASSERT_GE(planner.finished(), 1);
  EXPECT_TRUE(planner.always_alike());
  EXPECT_EQ(static_cast<int64_t>(planner.steps().size()), kSteps);
  ASSERT_EQ(planner.parameters().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(planner.parameters()[i], expected[i], 1e-4 * std::max(1.0F, std::abs(expected[i])));
  }
}

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_IN_PLACE_PLANNER_H_
