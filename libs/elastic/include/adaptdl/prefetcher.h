// Reads batches ahead, in threads of its own. For the data loaders.
//
// Thread-safety: one thread takes; each reader is called by one thread at a time.

#ifndef ADAPTDL_PREFETCHER_H_
#define ADAPTDL_PREFETCHER_H_

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace adaptdl {

template <typename Batch>
class Prefetcher {
 public:
  using Indices = std::vector<int64_t>;
  using Reader = std::function<Batch(const Indices&)>;

  // `reader` reads what nobody reads ahead, in the thread that takes; each of `ahead` has a thread.
  Prefetcher(Reader reader, std::vector<Reader> ahead) : reader_(std::move(reader)) {
    threads_.reserve(ahead.size());
    for (Reader& each : ahead) {
      threads_.emplace_back([this, each = std::move(each)] { Run(each); });
    }
  }

  // Waits for the reads under way.
  ~Prefetcher() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // What will be taken next, in this order. Reads that are not among it are given up.
  void Expect(const std::vector<Indices>& next) {
    if (threads_.empty()) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      std::deque<std::shared_ptr<Read>> reads;
      for (const Indices& indices : next) {
        std::shared_ptr<Read> read = Remove(indices);
        if (read == nullptr) {
          read = std::make_shared<Read>();
          read->indices = indices;
        }
        reads.push_back(std::move(read));
      }
      reads_ = std::move(reads);
    }
    changed_.notify_all();
  }

  // The batch of these indices. Throws what its reader threw.
  Batch Take(const Indices& indices) {
    std::shared_ptr<Read> read;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      read = Remove(indices);
    }
    // Nobody has begun: it is quicker done here than waited for.
    if (read == nullptr || !read->begun) return reader_(indices);
    return read->batch.get_future().get();
  }

 private:
  struct Read {
    Indices indices;
    std::promise<Batch> batch;
    // Changed only while the read is in reads_, under the mutex.
    bool begun = false;
  };

  // Null: not there. The mutex is held.
  std::shared_ptr<Read> Remove(const Indices& indices) {
    const auto found = std::find_if(reads_.begin(), reads_.end(),
                                    [&](const auto& read) { return read->indices == indices; });
    if (found == reads_.end()) return nullptr;
    std::shared_ptr<Read> read = *found;
    reads_.erase(found);
    return read;
  }

  // The next one that nobody has begun. Null: the end.
  std::shared_ptr<Read> Begin() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      if (ending_) return nullptr;
      for (const std::shared_ptr<Read>& read : reads_) {
        if (read->begun) continue;
        read->begun = true;
        return read;
      }
      changed_.wait(lock);
    }
  }

  void Run(const Reader& reader) {
    while (const std::shared_ptr<Read> read = Begin()) {
      try {
        read->batch.set_value(reader(read->indices));
      } catch (...) {
        read->batch.set_exception(std::current_exception());
      }
    }
  }

  const Reader reader_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // In the order in which they will be taken.
  std::deque<std::shared_ptr<Read>> reads_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_PREFETCHER_H_
