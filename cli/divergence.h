// Since when the loss of a job is no number any more.
//
// A plain function on values, thread-safe.

#ifndef ADAPTDL_CLI_DIVERGENCE_H_
#define ADAPTDL_CLI_DIVERGENCE_H_

#include <cstdint>
#include <optional>

#include "adaptdl/v1/history_service.pb.h"

namespace adaptdl::cli {

// The last step at which the job reported a loss that was one, by its history: -1 if there was none. Absent: the loss is
// all right, or nobody knows.
std::optional<int64_t> LastSoundStep(const v1::GetJobHistoryResponse& history);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_DIVERGENCE_H_
