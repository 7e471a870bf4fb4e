// NVIDIA's NCCL, found when it is needed: nothing of it, nor of CUDA, is there when this project is built.
//
//   const absl::StatusOr<NcclLibrary> nccl = NcclLibrary::Open();
//   nccl->all_reduce(data, data, count, nccl::DataType::kFloat32, nccl::Op::kSum, comm, stream);
//
// The types are those of NCCL's binary interface, which has been the same since 2.18.
//
// Thread-safety: as NCCL, one thread at a time for each nccl::Comm.

#ifndef ADAPTDL_LIBS_COMM_NCCL_LIBRARY_H_
#define ADAPTDL_LIBS_COMM_NCCL_LIBRARY_H_

#include <array>
#include <climits>
#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/device/device.h"

namespace adaptdl::comm {
namespace nccl {

// ncclResult_t.
enum class Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

// ncclDataType_t.
enum class DataType : int {
  kUint8 = 1,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};

// ncclRedOp_t.
enum class Op : int { kSum = 0, kMax = 2 };

// ncclUniqueId: what the members of one group have in common.
struct UniqueId {
  std::array<char, 128> bytes = {};
};

// ncclComm_t.
using Comm = struct OpaqueComm*;

// ncclConfig_t as of 2.18. A later library takes what is not here for unset, as `size` and `version` tell it.
struct Config {
  static constexpr int kUnset = INT_MIN;

  size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21800;
  int blocking = kUnset;
  int cga_cluster_size = kUnset;
  int min_ctas = kUnset;
  int max_ctas = kUnset;
  const char* net_name = nullptr;
  int split_share = kUnset;
  int traffic_class = kUnset;  // of later ones; padding in 2.18
};
static_assert(sizeof(Config) == 48 && offsetof(Config, split_share) == 40, "not laid out as NCCL's");

}  // namespace nccl

struct NcclLibrary {
  // The environment variable ADAPTDL_NCCL_LIBRARY names the library, as a path or as the dynamic linker finds it.
  // Without it: the libnccl.so.2 that is open in this process, such as LibTorch's, or else the one that the dynamic
  // linker finds. FAILED_PRECONDITION: there is none, or one that is too old; the text says what to do.
  static absl::StatusOr<NcclLibrary> Open();

  // Of another library than the environment's.
  static absl::StatusOr<NcclLibrary> OpenAt(const std::string& path);

  // Such as 22809.
  int version = 0;

  // By NCCL's names: ncclGetUniqueId and so on.
  std::function<nccl::Result(nccl::UniqueId*)> get_unique_id = nullptr;
  std::function<nccl::Result(nccl::Comm*, int size, nccl::UniqueId, int rank, nccl::Config*)>
      comm_init_rank_config = nullptr;
  std::function<nccl::Result(nccl::Comm, nccl::Result*)> comm_get_async_error = nullptr;
  std::function<nccl::Result(nccl::Comm)> comm_finalize = nullptr;
  std::function<nccl::Result(nccl::Comm)> comm_destroy = nullptr;
  std::function<nccl::Result(nccl::Comm)> comm_abort = nullptr;
  std::function<nccl::Result(const void* from, void* to, size_t count, nccl::DataType, nccl::Op, nccl::Comm,
                             device::Stream)>
      all_reduce = nullptr;
  std::function<nccl::Result(const void* from, void* to, size_t count, nccl::DataType, int root, nccl::Comm,
                             device::Stream)>
      broadcast = nullptr;
  std::function<const char*(nccl::Result)> get_error_string = nullptr;

  // OK also while it is in progress. UNAVAILABLE: another member or the network is to blame; else INTERNAL.
  absl::Status StatusOf(nccl::Result result, absl::string_view doing) const;
};

// For example "2.28.9".
std::string NcclVersionText(int version);

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_NCCL_LIBRARY_H_
