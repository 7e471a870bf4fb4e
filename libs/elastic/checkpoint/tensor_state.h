// States that are named tensors, as safetensors: what the states of front ends (models, optimisers) have in common,
// whatever their tensors are.
//
// A front end implements Read(), whose reader is a TensorStateReader, and Write(), which checks names, types and
// shapes of all tensors before it changes any.
//
// Thread-safety: the training thread only.

#ifndef ADAPTDL_LIBS_ELASTIC_CHECKPOINT_TENSOR_STATE_H_
#define ADAPTDL_LIBS_ELASTIC_CHECKPOINT_TENSOR_STATE_H_

#include <string>
#include <utility>

#include "adaptdl/job.h"
#include "libs/elastic/checkpoint/piecewise_state.h"

namespace adaptdl::elastic {

class TensorStateReader : public StateReader {
 public:
  // All of it as one file, in place of what `bytes` holds. The reader is at its end then.
  virtual void CopyInto(std::string* bytes) = 0;
};

// Saving and loading, by pieces.
class TensorState : public CheckpointState, protected PiecewiseState {
 public:
  explicit TensorState(std::string name) : name_(std::move(name)) {}

  std::string name() const final { return name_; }
  // Throw what Read() throws.
  std::string Save() final;
  void SaveInto(std::string* bytes) final;
  // False, and nothing is changed, if the tensors are not exactly those that there are; stderr says why.
  bool Load(const std::string& bytes) final;
  bool changes_with_steps() const final { return true; }
  PiecewiseState* piecewise() final { return this; }

 private:
  const std::string name_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CHECKPOINT_TENSOR_STATE_H_
