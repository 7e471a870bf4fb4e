// Whole files, safely. All functions are thread-safe and return the errno's canonical code with the path in
// the text.

#ifndef ADAPTDL_LIBS_BASE_FILE_H_
#define ADAPTDL_LIBS_BASE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl {

// The canonical code of `error_number` with "<what>: <strerror>".
absl::Status ErrnoStatus(int error_number, absl::string_view what);

// Replaces the file at `path`: written beside it, synced, renamed, folder synced. After a crash the file is
// the old one or the new one, never a mixture.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view content, int mode = 0644);

// OUT_OF_RANGE if the file is larger than `max_bytes`.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t max_bytes = int64_t{64} << 20);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_FILE_H_
