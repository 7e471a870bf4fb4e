// Kubernetes quantities ("500m", "1.5Gi", "1e3") as whole numbers, by exact decimal arithmetic: "2.007" cores
// are 2007 thousandths, never 2008. What is left over is rounded up, as Kubernetes does.
//
// All functions are thread-safe. INVALID_ARGUMENT: not a quantity, or a negative one, with the remedy in the
// text; OUT_OF_RANGE: larger than 2^63 - 1.

#ifndef ADAPTDL_LIBS_JOBFILE_QUANTITY_H_
#define ADAPTDL_LIBS_JOBFILE_QUANTITY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::jobfile {

// Processor time in thousandths of a core.
absl::StatusOr<int64_t> ParseCpuMillis(absl::string_view text);

// Memory or storage in bytes; any resource in its base unit.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// Things that can't be divided, such as GPUs: a fraction is INVALID_ARGUMENT.
absl::StatusOr<int64_t> ParseCount(absl::string_view text);

}  // namespace adaptdl::jobfile

#endif  // ADAPTDL_LIBS_JOBFILE_QUANTITY_H_
