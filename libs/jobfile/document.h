// A YAML document as a plain tree that remembers lines, read within bounds that keep a hostile file from
// costing more than its size: 1 MiB, 64 levels, and 100,000 nodes after aliases are written out.
//
// Thread-safety: functions are thread-safe; a Node is a value.

#ifndef ADAPTDL_LIBS_JOBFILE_DOCUMENT_H_
#define ADAPTDL_LIBS_JOBFILE_DOCUMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::jobfile {

inline constexpr int64_t kMaxFileBytes = int64_t{1} << 20;
inline constexpr int kMaxDepth = 64;
inline constexpr int kMaxNodes = 100'000;

struct Field;

struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  // From 1.
  int line = 1;
  // Scalars: the text, and whether it was in quotes (then it is a text whatever it looks like).
  std::string text;
  bool quoted = false;
  // Lists.
  std::vector<Node> items;
  // Maps, in the file's order. Keys may repeat.
  std::vector<Field> fields;

  // The first field of that name, or null.
  const Node* Find(absl::string_view name) const;
};

struct Field {
  std::string name;
  int line = 1;
  Node value;
};

// The file's only document. Errors are INVALID_ARGUMENT and begin with "<file_name>:<line>: ".
absl::StatusOr<Node> ParseDocument(absl::string_view content, absl::string_view file_name);

}  // namespace adaptdl::jobfile

#endif  // ADAPTDL_LIBS_JOBFILE_DOCUMENT_H_
