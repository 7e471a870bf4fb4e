// The safetensors format: named tensors as plain bytes behind a JSON header. Its own libraries read and write
// it in many languages (https://github.com/huggingface/safetensors).
//
//   8 bytes       length of the header, little-endian
//   header        {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
//   data          elements row by row, little-endian, without gaps
//
// Thread-safety: pure functions.

#ifndef ADAPTDL_LIBS_ELASTIC_CHECKPOINT_SAFETENSORS_H_
#define ADAPTDL_LIBS_ELASTIC_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::elastic {

// Bytes of an element of type "F32", "I64", "BOOL" and so on. 0: the format has no such type.
int64_t SafetensorsElementBytes(absl::string_view dtype);

// A tensor to be written.
struct SafetensorsItem {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  // Writes the elements, as many bytes as type and shape say.
  std::function<void(char* to)> copy;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// Order in which tensors are written: larger elements first, so that all are aligned.
bool SafetensorsBefore(absl::string_view dtype, absl::string_view other_dtype);

// What comes before the data of `items`, in their order: length and header.
std::string SafetensorsHead(const std::vector<SafetensorsItem>& items, const SafetensorsMetadata& metadata);

// Writes a file into `to`, in place of what it holds, in one copy of the data; memory that is large enough is
// used again as it is. Items are put into the order above. Names must differ from each other
// and from "__metadata__", and be UTF-8.
void WriteSafetensors(std::vector<SafetensorsItem> items, const SafetensorsMetadata& metadata,
                      std::string* to);

// A tensor as it was read; `data` points into what was read.
struct SafetensorsTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  absl::string_view data;
};

struct Safetensors {
  std::map<std::string, SafetensorsTensor> tensors;
  SafetensorsMetadata metadata;
};

// DATA_LOSS says what is wrong. `bytes` may be anything.
absl::StatusOr<Safetensors> ReadSafetensors(absl::string_view bytes);

// What the head of a file says, without its data.
struct SafetensorsLayout {
  struct Entry {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
    int64_t bytes = 0;
  };
  // As their data follow each other.
  std::vector<Entry> entries;
  SafetensorsMetadata metadata;
  // Of head and data.
  int64_t head_bytes = 0;
  int64_t data_bytes = 0;
};

// `bytes` begins with a head, and may be anything. DATA_LOSS as above.
absl::StatusOr<SafetensorsLayout> ReadSafetensorsHead(absl::string_view bytes);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CHECKPOINT_SAFETENSORS_H_
