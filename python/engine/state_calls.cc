#include "python/engine/state_calls.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/elastic/checkpoint/safetensors.h"
#include "libs/elastic/checkpoint/streaming_copy.h"
#include "libs/elastic/checkpoint/tensor_state.h"
#include "python/engine/calls.h"

using adaptdl::python::Call;
using adaptdl::python::CallBack;

namespace elastic = adaptdl::elastic;

struct adaptdl_bytes {
  std::string* to;
};

struct adaptdl_tensors {
  struct Tensor {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
    void* data = nullptr;
    int64_t bytes = 0;
  };
  std::vector<Tensor> all = {};
  std::string text = {};
};

struct adaptdl_state {
  adaptdl_job* job;
  std::unique_ptr<adaptdl::CheckpointState> state;
  bool registered = false;
};

namespace adaptdl::python {
namespace {

// What a front end's text is called in safetensors' metadata.
constexpr char kText[] = "adaptdl";

// --- Bytes ---

class BytesState final : public CheckpointState {
 public:
  BytesState(adaptdl_job* job, std::string name, bool changes_with_steps, const adaptdl_bytes_calls& calls)
      : job_(job), name_(std::move(name)), changes_with_steps_(changes_with_steps), calls_(calls) {}

  std::string name() const override { return name_; }
  bool changes_with_steps() const override { return changes_with_steps_; }
  void Sync() override {
    if (calls_.sync != nullptr) CallBack(job_, calls_.sync);
  }
  std::string Save() override {
    std::string bytes;
    adaptdl_bytes to = {&bytes};
    CallBack(job_, calls_.save, &to);
    return bytes;
  }
  bool Load(const std::string& bytes) override {
    CallBack(job_, calls_.load, bytes.data(), static_cast<int64_t>(bytes.size()));
    return true;
  }

 private:
  adaptdl_job* const job_;
  const std::string name_;
  const bool changes_with_steps_;
  const adaptdl_bytes_calls calls_;
};

// --- Tensors ---

class ListReader final : public elastic::TensorStateReader {
 public:
  explicit ListReader(adaptdl_tensors list) : list_(std::move(list)) {
    std::stable_sort(list_.all.begin(), list_.all.end(), [](const auto& a, const auto& b) {
      return elastic::SafetensorsBefore(a.dtype, b.dtype);
    });
    for (const adaptdl_tensors::Tensor& tensor : list_.all) {
      sizes_.push_back(tensor.bytes);
      items_.push_back({tensor.name, tensor.dtype, tensor.shape, [tensor](char* to) {
                          elastic::StreamingCopy(to, tensor.data, static_cast<size_t>(tensor.bytes));
                        }});
    }
    head_ = elastic::SafetensorsHead(items_, Metadata());
  }

  const std::string& head() const override { return head_; }
  const std::vector<int64_t>& sizes() const override { return sizes_; }
  const char* Read(size_t index) override { return static_cast<const char*>(list_.all[index].data); }
  void CopyInto(std::string* bytes) override {
    elastic::WriteSafetensors(std::move(items_), Metadata(), bytes);
  }

 private:
  elastic::SafetensorsMetadata Metadata() const { return {{"format", "pt"}, {kText, list_.text}}; }

  adaptdl_tensors list_;
  std::vector<elastic::SafetensorsItem> items_;
  std::vector<int64_t> sizes_;
  std::string head_;
};

class ListWriter final : public elastic::StateWriter {
 public:
  ListWriter(adaptdl_job* job, adaptdl_tensors list, int (*commit)(void))
      : job_(job), list_(std::move(list)), commit_(commit) {
    for (const adaptdl_tensors::Tensor& tensor : list_.all) sizes_.push_back(tensor.bytes);
  }

  const std::vector<int64_t>& sizes() const override { return sizes_; }
  char* Open(size_t index) override { return static_cast<char*>(list_.all[index].data); }
  void Close(size_t /*index*/) override {}
  absl::Status Commit() override {
    CallBack(job_, commit_);
    return absl::OkStatus();
  }

 private:
  adaptdl_job* const job_;
  const adaptdl_tensors list_;
  int (*const commit_)(void);
  std::vector<int64_t> sizes_;
};

class ListState final : public elastic::TensorState {
 public:
  ListState(adaptdl_job* job, std::string name, const adaptdl_tensors_calls& calls)
      : TensorState(std::move(name)), job_(job), calls_(calls) {}

  std::unique_ptr<elastic::StateReader> Read() override {
    adaptdl_tensors list;
    CallBack(job_, calls_.list, &list);
    return std::make_unique<ListReader>(std::move(list));
  }

  absl::StatusOr<std::unique_ptr<elastic::StateWriter>> Write(const std::string& head) override {
    const absl::StatusOr<elastic::SafetensorsLayout> layout = elastic::ReadSafetensorsHead(head);
    if (!layout.ok()) return absl::InvalidArgumentError(layout.status().message());
    adaptdl_tensors list;
    if (const auto text = layout->metadata.find(kText); text != layout->metadata.end())
      list.text = text->second;
    for (const elastic::SafetensorsLayout::Entry& entry : layout->entries) {
      list.all.push_back({entry.name, entry.dtype, entry.shape, nullptr, entry.bytes});
    }
    CallBack(job_, calls_.open, &list);
    for (const adaptdl_tensors::Tensor& tensor : list.all) {
      if (tensor.data == nullptr && tensor.bytes > 0) {
        return absl::InvalidArgumentError(tensor.name + " has no place here");
      }
    }
    return std::make_unique<ListWriter>(job_, std::move(list), calls_.commit);
  }

 private:
  adaptdl_job* const job_;
  const adaptdl_tensors_calls calls_;
};

int Open(adaptdl_job* job, std::unique_ptr<CheckpointState> made, adaptdl_state** state) {
  *state = new adaptdl_state{job, std::move(made)};
  return ADAPTDL_OK;
}

}  // namespace

CheckpointState* StateOf(adaptdl_state* state) { return state->state.get(); }

}  // namespace adaptdl::python

void adaptdl_bytes_set(adaptdl_bytes* bytes, const char* data, int64_t size) {
  bytes->to->assign(data, static_cast<size_t>(size));
}

void adaptdl_tensors_add(adaptdl_tensors* tensors, const char* name, const char* dtype, int64_t dimensions,
                         const int64_t* shape, void* data) {
  adaptdl_tensors::Tensor tensor{name, dtype, std::vector<int64_t>(shape, shape + dimensions), data};
  tensor.bytes = elastic::SafetensorsElementBytes(dtype);
  for (const int64_t size : tensor.shape) tensor.bytes *= size;
  tensors->all.push_back(std::move(tensor));
}

void adaptdl_tensors_set_text(adaptdl_tensors* tensors, const char* text) { tensors->text = text; }
const char* adaptdl_tensors_text(const adaptdl_tensors* tensors) { return tensors->text.c_str(); }

int64_t adaptdl_tensors_count(const adaptdl_tensors* tensors) {
  return static_cast<int64_t>(tensors->all.size());
}

void adaptdl_tensors_get(const adaptdl_tensors* tensors, int64_t index, adaptdl_tensor* tensor) {
  const adaptdl_tensors::Tensor& from = tensors->all[static_cast<size_t>(index)];
  *tensor = {from.name.c_str(), from.dtype.c_str(), static_cast<int64_t>(from.shape.size()),
             from.shape.data()};
}

void adaptdl_tensors_place(adaptdl_tensors* tensors, int64_t index, void* data) {
  tensors->all[static_cast<size_t>(index)].data = data;
}

int adaptdl_state_open_bytes(adaptdl_job* job, const char* name, int changes_with_steps,
                             const adaptdl_bytes_calls* calls, adaptdl_state** state) {
  return adaptdl::python::Open(
      job, std::make_unique<adaptdl::python::BytesState>(job, name, changes_with_steps != 0, *calls), state);
}

int adaptdl_state_open_tensors(adaptdl_job* job, const char* name, const adaptdl_tensors_calls* calls,
                               adaptdl_state** state) {
  return adaptdl::python::Open(job, std::make_unique<adaptdl::python::ListState>(job, name, *calls), state);
}

int adaptdl_state_register(adaptdl_state* state, int* loaded) {
  return Call(state->job, [&] {
    state->registered = true;
    *loaded = state->job->job->Register(state->state.get()) ? 1 : 0;
  });
}

int adaptdl_state_close(adaptdl_state* state) {
  if (state->registered) state->job->job->Unregister(state->state.get());
  delete state;
  return ADAPTDL_OK;
}
