#include "libs/comm/in_process_communicator.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/comm/signature.h"

namespace adaptdl::comm {
namespace {

// What the members share: the collectives that some have begun and not all have finished.
class Group {
 public:
  explicit Group(int size) : size_(size), aborted_(size), left_(size) {}

  int size() const { return size_; }

  // Hands in member `rank`'s part of collective `number`.
  void Contribute(uint64_t number, int rank, const Collective& mine) {
    std::string part = mine.kind == Collective::Kind::kAllGather
                           ? mine.value
                           : std::string(static_cast<const char*>(mine.buffer.data), mine.buffer.bytes());
    const Signature signature = SignatureOf(mine);
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return;
    Shared& shared = shared_[number];
    if (shared.contributed == 0) {
      shared.parts.resize(size_);
      shared.here.resize(size_, false);
      shared.signature = signature;
      shared.first = rank;
    }
    if (!(shared.signature == signature)) {
      failure_ = absl::FailedPreconditionError(
          absl::StrCat("the members started different collectives as number ", number, ": rank ", rank, " ",
                       Describe(signature), ", rank ", shared.first, " ", Describe(shared.signature)));
    } else {
      shared.parts[rank] = std::move(part);
      shared.here[rank] = true;
      if (++shared.contributed == size_) Finish(&shared);
    }
    changed_.SignalAll();
  }

  absl::Status Await(uint64_t number, int rank, absl::Duration timeout, const Collective& mine) {
    MutexLock lock(&mutex_);
    const absl::Time deadline = SteadyNow() + timeout;
    for (;;) {
      if (!aborted_[rank].ok()) return aborted_[rank];
      const auto found = shared_.find(number);
      if (found != shared_.end() && found->second.done) {
        Take(found->second, rank, mine);
        if (++found->second.taken == size_) shared_.erase(found);
        return absl::OkStatus();
      }
      if (!failure_.ok()) return failure_;
      const absl::Duration left = deadline - SteadyNow();
      if (left <= absl::ZeroDuration()) {
        failure_ = LateStatus(number, timeout, mine);
        changed_.SignalAll();
        return failure_;
      }
      changed_.WaitFor(&mutex_, left);
    }
  }

  void Abort(int rank, absl::string_view reason) {
    MutexLock lock(&mutex_);
    aborted_[rank] = absl::AbortedError(reason);
    Leave(rank, absl::StrCat("rank ", rank, " has aborted: ", reason));
  }

  void Remove(int rank) {
    MutexLock lock(&mutex_);
    Leave(rank, absl::StrCat("rank ", rank, " is lost"));
  }

 private:
  struct Shared {
    Signature signature;
    int first = 0;  // the member that began it
    std::vector<std::string> parts;
    std::vector<bool> here;
    int contributed = 0;
    int taken = 0;
    bool done = false;
  };

  // Leaves the result in parts[root], for all-gathers in all parts.
  void Finish(Shared* shared) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (shared->signature.kind == Collective::Kind::kAllReduce) {
      const Signature& signature = shared->signature;
      const int64_t count = signature.bytes / ElementSize(signature.type);
      for (int rank = 1; rank < size_; ++rank) {
        ReduceInto(signature.op, signature.type, shared->parts[0].data(), shared->parts[rank].data(), count);
      }
    }
    shared->done = true;
  }

  static void Take(const Shared& shared, int rank, const Collective& mine) {
    if (mine.kind == Collective::Kind::kAllGather) {
      *mine.values = shared.parts;
    } else if (mine.buffer.bytes() > 0 && (mine.kind != Collective::Kind::kBroadcast || mine.root != rank)) {
      const std::string& result = shared.parts[shared.signature.root];
      std::memcpy(mine.buffer.data, result.data(), result.size());
    }
  }

  absl::Status LateStatus(uint64_t number, absl::Duration timeout, const Collective& mine)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Shared& shared = shared_[number];
    std::vector<std::string> absent;
    for (int rank = 0; rank < size_; ++rank) {
      if (shared.contributed == 0 || !shared.here[rank]) absent.push_back(absl::StrCat("rank ", rank));
    }
    return absl::DeadlineExceededError(absl::StrCat(Describe(SignatureOf(mine)), ", number ", number,
                                                    ", took longer than ", absl::FormatDuration(timeout),
                                                    ": ", absl::StrJoin(absent, ", "),
                                                    absent.size() == 1 ? " has" : " have", " not arrived"));
  }

  void Leave(int rank, absl::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (left_[rank]) return;
    left_[rank] = true;
    if (failure_.ok()) failure_ = absl::UnavailableError(why);
    changed_.SignalAll();
  }

  const int size_;
  Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, Shared> shared_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Status> aborted_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> left_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

class InProcessWork final : public Work {
 public:
  InProcessWork(std::shared_ptr<Group> group, uint64_t number, int rank, absl::Duration timeout,
                Collective collective)
      : group_(std::move(group)),
        number_(number),
        rank_(rank),
        timeout_(timeout),
        collective_(std::move(collective)) {}

  // The group holds copies: nothing is to be waited for.
  ~InProcessWork() override = default;

  absl::Status Wait() override { return group_->Await(number_, rank_, timeout_, collective_); }

 private:
  const std::shared_ptr<Group> group_;
  const uint64_t number_;
  const int rank_;
  const absl::Duration timeout_;
  const Collective collective_;
};

class InProcessCommunicator final : public Communicator {
 public:
  InProcessCommunicator(std::shared_ptr<Group> group, int rank, absl::Duration timeout)
      : group_(std::move(group)), rank_(rank), timeout_(timeout) {}
  ~InProcessCommunicator() override { group_->Remove(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  void Abort(absl::string_view reason) override { group_->Abort(rank_, reason); }
  void SetTimeout(absl::Duration timeout) override { timeout_ = timeout; }

 private:
  std::unique_ptr<Work> Start(Collective collective) override {
    const uint64_t number = next_++;
    group_->Contribute(number, rank_, collective);
    return std::make_unique<InProcessWork>(group_, number, rank_, timeout_, std::move(collective));
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
  absl::Duration timeout_;  // of the thread that starts collectives
  uint64_t next_ = 1;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> CreateInProcessGroup(int size, absl::Duration timeout) {
  auto group = std::make_shared<Group>(size);
  std::vector<std::unique_ptr<Communicator>> members;
  for (int rank = 0; rank < size; ++rank) {
    members.push_back(std::make_unique<InProcessCommunicator>(group, rank, timeout));
  }
  return members;
}

}  // namespace adaptdl::comm
