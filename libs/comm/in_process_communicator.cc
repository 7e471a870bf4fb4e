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
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace adaptdl::comm {
namespace {

using Bytes = std::vector<uint8_t>;

template <typename T>
void AddTo(Bytes* sum, const Bytes& value) {
  T* to = reinterpret_cast<T*>(sum->data());
  const T* from = reinterpret_cast<const T*>(value.data());
  for (size_t i = 0; i < sum->size() / sizeof(T); ++i) to[i] = static_cast<T>(to[i] + from[i]);
}

void AddTo(DataType type, Bytes* sum, const Bytes& value) {
  switch (type) {
    case DataType::kFloat32:
      return AddTo<float>(sum, value);
    case DataType::kFloat64:
      return AddTo<double>(sum, value);
    case DataType::kInt64:
      return AddTo<int64_t>(sum, value);
    case DataType::kUint8:
      return AddTo<uint8_t>(sum, value);
  }
}

// What the members share: the collectives that some have begun and not all have finished.
class Group {
 public:
  Group(int size, absl::Duration timeout) : size_(size), timeout_(timeout), aborted_(size), left_(size) {}

  int size() const { return size_; }

  // Hands in member `rank`'s part of collective number `sequence`. `root` < 0: the parts are summed.
  void Contribute(int64_t sequence, int rank, const Buffer& buffer, int root) {
    const uint8_t* begin = static_cast<const uint8_t*>(buffer.data);
    Bytes part(begin, begin + buffer.bytes());
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return;
    Collective& collective = collectives_[sequence];
    if (collective.parts.empty()) {
      collective.parts.resize(size_);
      collective.root = root;
      collective.type = buffer.type;
      collective.bytes = part.size();
    }
    if (collective.bytes != part.size() || collective.type != buffer.type || collective.root != root) {
      failure_ = absl::InternalError("the members called different collectives");
    } else {
      collective.parts[rank] = std::move(part);
      if (++collective.contributed == size_) Finish(&collective);
    }
    changed_.SignalAll();
  }

  absl::Status Await(int64_t sequence, int rank, const Buffer& buffer) {
    MutexLock lock(&mutex_);
    const absl::Time deadline = absl::Now() + timeout_;
    for (;;) {
      if (!aborted_[rank].ok()) return aborted_[rank];
      Collective& collective = collectives_[sequence];
      if (collective.done) {
        if (buffer.bytes() > 0) std::memcpy(buffer.data, collective.result.data(), collective.result.size());
        if (++collective.taken == size_) collectives_.erase(sequence);
        return absl::OkStatus();
      }
      if (!failure_.ok()) return failure_;
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) {
        failure_ = absl::DeadlineExceededError(
            absl::StrCat("a peer did not take part within ", absl::FormatDuration(timeout_)));
        changed_.SignalAll();
        return failure_;
      }
      changed_.WaitFor(&mutex_, left);
    }
  }

  void Abort(int rank, absl::string_view reason) {
    MutexLock lock(&mutex_);
    aborted_[rank] = absl::AbortedError(reason);
    Leave(rank);
  }

  void Remove(int rank) {
    MutexLock lock(&mutex_);
    Leave(rank);
  }

 private:
  struct Collective {
    std::vector<Bytes> parts;
    Bytes result;
    size_t bytes = 0;
    DataType type = DataType::kFloat32;
    int root = -1;
    int contributed = 0;
    int taken = 0;
    bool done = false;
  };

  void Finish(Collective* collective) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (collective->root >= 0) {
      collective->result = std::move(collective->parts[collective->root]);
    } else {
      collective->result = std::move(collective->parts[0]);
      for (int rank = 1; rank < size_; ++rank) {
        AddTo(collective->type, &collective->result, collective->parts[rank]);
      }
    }
    collective->parts.clear();
    collective->parts.shrink_to_fit();
    collective->done = true;
  }

  void Leave(int rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (left_[rank]) return;
    left_[rank] = true;
    if (failure_.ok())
      failure_ = absl::UnavailableError(absl::StrCat("the replica of rank ", rank, " is lost"));
    changed_.SignalAll();
  }

  const int size_;
  const absl::Duration timeout_;
  Mutex mutex_;
  CondVar changed_;
  std::map<int64_t, Collective> collectives_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Status> aborted_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> left_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

class InProcessWork final : public Work {
 public:
  InProcessWork(std::shared_ptr<Group> group, int64_t sequence, int rank, Buffer buffer)
      : group_(std::move(group)), sequence_(sequence), rank_(rank), buffer_(buffer) {}

  absl::Status Wait() override { return group_->Await(sequence_, rank_, buffer_); }

 private:
  const std::shared_ptr<Group> group_;
  const int64_t sequence_;
  const int rank_;
  const Buffer buffer_;
};

class InProcessCommunicator final : public Communicator {
 public:
  InProcessCommunicator(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}
  ~InProcessCommunicator() override { group_->Remove(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  std::unique_ptr<Work> AllReduceAsync(Buffer buffer) override { return Begin(buffer, /*root=*/-1); }
  absl::Status Broadcast(Buffer buffer, int root) override { return Begin(buffer, root)->Wait(); }
  absl::Status Barrier() override {
    int64_t nothing = 0;
    return AllReduce({&nothing, 1, DataType::kInt64});
  }
  void Abort(absl::string_view reason) override { group_->Abort(rank_, reason); }

 private:
  std::unique_ptr<Work> Begin(const Buffer& buffer, int root) {
    const int64_t sequence = next_++;
    group_->Contribute(sequence, rank_, buffer, root);
    return std::make_unique<InProcessWork>(group_, sequence, rank_, buffer);
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
  int64_t next_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> CreateInProcessGroup(int size, absl::Duration timeout) {
  auto group = std::make_shared<Group>(size, timeout);
  std::vector<std::unique_ptr<Communicator>> members;
  for (int rank = 0; rank < size; ++rank) {
    members.push_back(std::make_unique<InProcessCommunicator>(group, rank));
  }
  return members;
}

}  // namespace adaptdl::comm
