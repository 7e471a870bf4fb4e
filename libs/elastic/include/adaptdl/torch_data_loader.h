// AdaptiveDataLoader over a LibTorch data set:
//
//   adaptdl::DataLoader loader(*job, MyDataSet(...).map(torch::data::transforms::Stack<>()), {.batch_size =
//   64}); for (auto& batch : loader) { batch.data; batch.target; }
//
// The data set is any with size() and get_batch(indices), such as those of torch::data::datasets.

#ifndef ADAPTDL_TORCH_DATA_LOADER_H_
#define ADAPTDL_TORCH_DATA_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "adaptdl/data_loader.h"

namespace adaptdl {

template <typename DataSet>
class DataLoader {
 public:
  using Batch = typename DataSet::BatchType;

  DataLoader(Job& job, DataSet data_set, const DataLoaderOptions& options)
      : data_set_(std::move(data_set)),
        loader_(job, static_cast<int64_t>(*data_set_.size()), options),
        prefetch_(options.prefetch) {}

  struct End {};

  // The loop in progress. Leaving the loop early ends it.
  class Iterator {
   public:
    explicit Iterator(DataLoader* loader) : loader_(loader) {
      running_ = loader_->loader_.BeginLoop() && loader_->Read();
    }
    ~Iterator() {
      if (running_) loader_->loader_.EndLoop();
    }
    Iterator(const Iterator&) = delete;
    Iterator& operator=(const Iterator&) = delete;

    Batch& operator*() { return *loader_->batch_; }
    Iterator& operator++() {
      running_ = loader_->Read();
      return *this;
    }
    bool operator!=(End) const { return running_; }

   private:
    DataLoader* const loader_;
    bool running_ = false;
  };

  Iterator begin() { return Iterator(this); }
  End end() { return {}; }

  // Sizes, position and weight of the step in progress.
  AdaptiveDataLoader& core() { return loader_; }

 private:
  Batch Fetch(const std::vector<int64_t>& indices) {
    return data_set_.get_batch(std::vector<std::size_t>(indices.begin(), indices.end()));
  }

  bool Read() {
    if (!loader_.Next()) {
      ahead_.reset();
      return false;
    }
    if (ahead_ && ahead_indices_ == loader_.indices()) {
      batch_ = ahead_->get();
    } else {
      if (ahead_) ahead_->wait();
      batch_ = Fetch(loader_.indices());
    }
    ahead_.reset();
    if (prefetch_) {
      ahead_indices_ = loader_.PeekNext();
      if (!ahead_indices_.empty()) {
        ahead_ = std::async(std::launch::async, [this, indices = ahead_indices_] { return Fetch(indices); });
      }
    }
    return true;
  }

  DataSet data_set_;
  AdaptiveDataLoader loader_;
  const bool prefetch_;
  std::optional<Batch> batch_;
  std::vector<int64_t> ahead_indices_;
  std::optional<std::future<Batch>> ahead_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_TORCH_DATA_LOADER_H_
