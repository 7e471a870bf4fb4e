// What a process of a job under test notes of its training, for training_record.h: one file "<folder>/<pid>.steps".
//
//   begin STEP GROUP SAMPLE...   this replica's share of a micro-batch that it starts to compute
//   end STEP GROUP STATE         the step was taken; GROUP is that of its begin, STATE a checksum of all bits of the
//                                parameters after it, and of the size of its batch
//
// Thread-safety: of one thread.

#ifndef ADAPTDL_TESTS_INTEGRATION_CHAOS_STEP_RECORD_H_
#define ADAPTDL_TESTS_INTEGRATION_CHAOS_STEP_RECORD_H_

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "adaptdl/adaptdl.h"
#include "torch/nn/module.h"

namespace adaptdl::integration {

// Whole lines, each with one write: a killed process leaves no half of one.
class StepRecord {
 public:
  explicit StepRecord(const std::string& folder)
      : file_(open(absl::StrCat(folder, "/", getpid(), ".steps").c_str(), O_WRONLY | O_CREAT | O_APPEND,
                   0644)) {}

  void Begin(int64_t step, int64_t group, const AdaptiveDataLoader& loader) const {
    std::string line = absl::StrCat("begin ", step, " ", group);
    for (int64_t i = 0; i < loader.weight(); ++i) absl::StrAppend(&line, " ", loader.indices()[i]);
    Write(line + "\n");
  }
  void End(int64_t step, int64_t group, uint64_t state) const {
    Write(absl::StrCat("end ", step, " ", group, " ", state >> 1, "\n"));
  }

 private:
  void Write(const std::string& line) const {
    if (write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::exit(3);
  }

  const int file_;
};

// FNV-1a.
inline uint64_t ChecksumOf(const torch::nn::Module& model, int64_t batch_size) {
  uint64_t sum = 14695981039346656037u;
  const auto add = [&sum](const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < size; ++i) sum = (sum ^ bytes[i]) * 1099511628211u;
  };
  for (const torch::Tensor& parameter : model.parameters()) add(parameter.data_ptr(), parameter.nbytes());
  add(&batch_size, sizeof(batch_size));
  return sum;
}

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_CHAOS_STEP_RECORD_H_
