// Reads streams one after the other, ahead of who takes their samples, in a thread of its own. For
// StreamLoader.
//
// Thread-safety: one thread calls it. What opens and reads the streams is called by one thread at a time.

#ifndef ADAPTDL_SHARD_READER_H_
#define ADAPTDL_SHARD_READER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace adaptdl {

template <typename Sample>
class ShardReader {
 public:
  // The next sample of a shard; nullopt: its end.
  using Stream = std::function<std::optional<Sample>()>;
  using OpenShard = std::function<Stream(int64_t shard, int64_t skip)>;

  // `ahead`: samples that are read before they are asked for. 0: none, and no thread.
  ShardReader(OpenShard open, int64_t ahead) : open_(std::move(open)), ahead_(ahead) {
    if (ahead_ > 0) thread_ = std::thread([this] { Run(); });
  }

  // Waits for the read under way.
  ~ShardReader() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  ShardReader(const ShardReader&) = delete;
  ShardReader& operator=(const ShardReader&) = delete;

  // Shards that are read side by side.
  static constexpr int64_t shards_at_once() { return 1; }

  // The shard, from its sample number `skip` on, comes after those added before.
  void Add(int64_t shard, int64_t skip) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      shards_.push_back({shard, skip});
    }
    ++open_shards_;
    changed_.notify_all();
  }

  // Whether the end of every shard was taken.
  bool empty() const { return open_shards_ == 0; }

  struct Read {
    int64_t shard = 0;
    // Samples of the shard up to here, this one included.
    int64_t position = 0;
    // Absent: the shard's end.
    std::optional<Sample> sample = std::nullopt;
    // What reading threw.
    std::exception_ptr error = nullptr;
  };

  // Waits for it. Throws what the stream threw; that shard is given up then. REQUIRES: !empty().
  Read Take() {
    Read read = ahead_ > 0 ? TakeReady() : ReadOn();
    if (!read.sample) --open_shards_;
    if (read.error) std::rethrow_exception(read.error);
    return read;
  }

  // Forgets all shards.
  void Clear() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      shards_.clear();
      ready_.clear();
      ++clears_;
    }
    open_shards_ = 0;
    changed_.notify_all();
  }

  // The first sample of a shard, apart from all others. nullopt: it has none.
  std::optional<Sample> First(int64_t shard) {
    std::lock_guard<std::mutex> reading(reading_);
    return open_(shard, 0)();
  }

 private:
  struct Shard {
    int64_t shard;
    int64_t position;
  };

  Read TakeReady() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty(); });
    Read read = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return read;
  }

  // Of the first shard; ahead of who takes, it is put to the others that are ready, and nothing is returned. The thread
  // that reads, without the mutex.
  Read ReadOn() {
    std::lock_guard<std::mutex> reading(reading_);
    Shard at;
    int64_t clears = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (shards_.empty()) return {};
      at = shards_.front();
      clears = clears_;
    }
    Read read = {at.shard, at.position};
    try {
      if (stream_of_ != std::pair(clears, at.shard)) stream_ = open_(at.shard, at.position);
      stream_of_ = {clears, at.shard};
      read.sample = stream_();
    } catch (...) {
      read.error = std::current_exception();
    }
    if (read.sample) {
      ++read.position;
    } else {
      stream_ = nullptr;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (clears != clears_) return {};
    if (read.sample) {
      shards_.front().position = read.position;
    } else {
      shards_.pop_front();
    }
    if (ahead_ == 0) return read;
    ready_.push_back(std::move(read));
    return {};
  }

  void Run() {
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] {
          return ending_ || (!shards_.empty() && static_cast<int64_t>(ready_.size()) < ahead_);
        });
        if (ending_) return;
      }
      ReadOn();
      changed_.notify_all();
    }
  }

  const OpenShard open_;
  const int64_t ahead_;
  // Of the thread that takes.
  int64_t open_shards_ = 0;

  // Held while the program's functions run.
  std::mutex reading_;
  // The stream that is open, and which one it is.
  Stream stream_;
  std::pair<int64_t, int64_t> stream_of_ = {-1, -1};

  std::mutex mutex_;
  std::condition_variable changed_;
  // Not read to their end, in the order in which they are read.
  std::deque<Shard> shards_;
  std::deque<Read> ready_;
  int64_t clears_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_SHARD_READER_H_
