// AdaptiveDataLoader over a LibTorch data set:
//
//   adaptdl::DataLoader loader(*job, MyDataSet(...).map(torch::data::transforms::Stack<>()), {.batch_size =
//   64}); for (auto& batch : loader) { batch.data; batch.target; }
//
// The data set is any with size() and get_batch(indices), such as those of torch::data::datasets. With
// DataLoaderOptions::workers each worker thread has a copy of it, as with LibTorch's own loaders.
//
// Batches are on `device` when the loop gets them. Those for a GPU are read into pinned memory and copied behind the
// program's back (batch_device.h says of which types); with workers this, too, is done ahead of the loop but for the copy.

#ifndef ADAPTDL_TORCH_DATA_LOADER_H_
#define ADAPTDL_TORCH_DATA_LOADER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "adaptdl/batch_device.h"
#include "adaptdl/data_loader.h"
#include "adaptdl/prefetcher.h"

namespace adaptdl {

template <typename DataSet>
class DataLoader {
 public:
  using Batch = typename DataSet::BatchType;

  // Throws std::invalid_argument for a device other than the CPU if nobody knows where a batch of this data set has its
  // tensors.
  DataLoader(Job& job, DataSet data_set, const DataLoaderOptions& options,
             const c10::Device& device = c10::DeviceType::CPU)
      : device_(Checked(device)),
        loader_(job, static_cast<int64_t>(*data_set.size()), options),
        reads_ahead_(options.workers > 0 ? options.workers * std::max(options.batches_per_worker, 1) : 0),
        prefetcher_(ReaderOf(data_set, device_), ReadersOf(data_set, options.workers, device_)) {}

  struct End {};

  // The loop in progress. Leaving the loop early ends it.
  class Iterator {
   public:
    explicit Iterator(DataLoader* loader) : loader_(loader) {
      running_ = loader_->loader_.BeginLoop() && loader_->Next();
    }
    ~Iterator() {
      if (running_) loader_->loader_.EndLoop();
    }
    Iterator(const Iterator&) = delete;
    Iterator& operator=(const Iterator&) = delete;

    Batch& operator*() { return *loader_->batch_; }
    Iterator& operator++() {
      running_ = loader_->Next();
      return *this;
    }
    bool operator!=(End) const { return running_; }

   private:
    DataLoader* const loader_;
    bool running_ = false;
  };

  Iterator begin() { return Iterator(this); }
  End end() { return {}; }
  // LibTorch's own loaders are pointers: loops over *loader stay as they are.
  DataLoader& operator*() { return *this; }

  // As AdaptiveDataLoader's.
  void AutoscaleBatchSize(int64_t max_batch_size, const LocalBatchSizes& local = {},
                          bool accumulation = false) {
    loader_.AutoscaleBatchSize(max_batch_size, local, accumulation);
  }

  void ToTensorBoard(TensorBoardWriter& writer, int64_t step, const std::string& prefix = "") const {
    loader_.ToTensorBoard(writer, step, prefix);
  }

  // As AdaptiveDataLoader's. If true, the batch of the loop has become the first one of the step begun anew.
  bool RetryAfterOutOfMemory(const std::exception& error) {
    if (!loader_.RetryAfterOutOfMemory(error)) return false;
    Read();
    return true;
  }

  // Sizes, position and weight of the step in progress.
  AdaptiveDataLoader& core() { return loader_; }

 private:
  using Reader = typename Prefetcher<Batch>::Reader;

  static c10::Device Checked(const c10::Device& device) {
    if (HasKnownTensors<Batch>() || device.is_cpu()) return device;
    throw std::invalid_argument(
        "adaptdl::DataLoader does not know where the tensors of these batches are, to put them on " +
        device.str() + "; leave the device out and do it in the loop");
  }

  static Reader ReaderOf(const DataSet& data_set, const c10::Device& device) {
    return [copy = std::make_shared<DataSet>(data_set), device](const std::vector<int64_t>& indices) {
      Batch batch = copy->get_batch(std::vector<std::size_t>(indices.begin(), indices.end()));
      if constexpr (HasKnownTensors<Batch>()) {
        ForEachTensor(batch, [&](const at::Tensor& tensor) { return Pin(tensor, device); });
      }
      return batch;
    };
  }

  static std::vector<Reader> ReadersOf(const DataSet& data_set, int count, const c10::Device& device) {
    std::vector<Reader> readers;
    for (int i = 0; i < count; ++i) readers.push_back(ReaderOf(data_set, device));
    return readers;
  }

  bool Next() {
    if (!loader_.Next()) {
      prefetcher_.Expect({});
      return false;
    }
    Read();
    return true;
  }

  void Read() {
    // Out of the way of the next one.
    batch_.reset();
    batch_ = prefetcher_.Take(loader_.indices());
    if constexpr (HasKnownTensors<Batch>()) {
      if (!device_.is_cpu()) {
        ForEachTensor(*batch_, [&](const at::Tensor& tensor) { return ToDevice(tensor, device_); });
      }
    }
    loader_.MarkRead();
    if (reads_ahead_ > 0) prefetcher_.Expect(loader_.PeekNext(reads_ahead_));
  }

  const c10::Device device_;
  AdaptiveDataLoader loader_;
  const int reads_ahead_;
  Prefetcher<Batch> prefetcher_;
  std::optional<Batch> batch_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_TORCH_DATA_LOADER_H_
