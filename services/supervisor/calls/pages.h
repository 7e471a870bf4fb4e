// The pages of lists: their sizes and the tokens between them. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CALLS_PAGES_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CALLS_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace adaptdl::supervisor {

// The namespace, or "default".
std::string NamespaceOr(const std::string& name_space);

// Number from a page token; INVALID_ARGUMENT if it is none of ours.
absl::StatusOr<int64_t> ParsePageToken(const std::string& token);
// Bytes of a page, well below the largest message: a page ends with the entry that goes beyond.
inline constexpr size_t kMaxPageBytes = 2 << 20;
// Entries of a list that are looked up at once: the index and the store are held for no longer.
inline constexpr int kReadBatch = 128;
// Page size within its limits. INVALID_ARGUMENT: it is negative.
absl::StatusOr<int> ParsePageSize(int page_size);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CALLS_PAGES_H_
