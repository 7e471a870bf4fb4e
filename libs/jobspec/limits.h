// How large what belongs to a job may be. Constants.

#ifndef ADAPTDL_LIBS_JOBSPEC_LIMITS_H_
#define ADAPTDL_LIBS_JOBSPEC_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace adaptdl::jobspec {

// Bytes.
inline constexpr int kMaxNameLength = 63;
inline constexpr int kMaxPrefixLength = 57;
inline constexpr int kMaxPathLength = 4096;
inline constexpr size_t kMaxSpecBytes = 256 << 10;
inline constexpr size_t kMaxRequirementsBytes = 64 << 10;
inline constexpr int kMaxLabels = 64;
inline constexpr int kMaxLabelLength = 63;
// Of a command, its arguments, and its environment.
inline constexpr int kMaxEntries = 1024;
// More are no request that means something: tables and sums stay small.
inline constexpr int kMaxReplicas = 1 << 14;
inline constexpr int kMaxAllowedReplicas = 64;
// Up, and down.
inline constexpr int kMaxPriority = 1000;
inline constexpr int kMaxRestarts = 1000;
inline constexpr absl::Duration kMaxGracePeriod = absl::Hours(1);
inline constexpr int kMaxExtendedResources = 64;
inline constexpr int kMaxDataSets = 64;
inline constexpr int kMaxUrlLength = 2048;
// The type of a GPU, as of a node.
inline constexpr int kMaxGpuTypeLength = 253;
inline constexpr int kMaxGpus = 1 << 20;
// Of any resource: far above any machine (a pebibyte), and low enough that sums over a cluster can't
// overflow.
inline constexpr int64_t kMaxAmount = int64_t{1} << 50;

}  // namespace adaptdl::jobspec

#endif  // ADAPTDL_LIBS_JOBSPEC_LIMITS_H_
