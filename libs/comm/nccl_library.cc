#include "libs/comm/nccl_library.h"

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/base/shared_library.h"

namespace adaptdl::comm {
namespace {

constexpr char kVariable[] = "ADAPTDL_NCCL_LIBRARY";
constexpr char kName[] = "libnccl.so.2";
constexpr int kOldest = 21800;

std::string Remedy() {
  return absl::StrCat("install NVIDIA's NCCL, ", NcclVersionText(kOldest), " or later, or name it in ",
                      kVariable, "; or let the job exchange gradients by TCP");
}

absl::StatusOr<SharedLibrary> OpenLibrary(const std::string& path) {
  absl::StatusOr<SharedLibrary> library = SharedLibrary::Open({path}, Remedy());
  if (!library.ok()) return absl::FailedPreconditionError(library.status().message());
  return library;
}

// From a library into `*function`, unless there was an error before.
template <typename Function>
void Find(const SharedLibrary& library, const char* symbol, std::function<Function>* function,
          absl::Status* status) {
  if (!status->ok()) return;
  const absl::StatusOr<Function*> found = library.Find<Function>(symbol);
  if (found.ok()) {
    *function = *found;
  } else {
    *status = absl::FailedPreconditionError(
        absl::StrCat(library.path(), " has no ", symbol, ", it is not NCCL or too old: ", Remedy()));
  }
}

absl::StatusOr<NcclLibrary> Use(const SharedLibrary& library) {
  NcclLibrary nccl;
  std::function<nccl::Result(int*)> get_version;
  absl::Status status;
  Find(library, "ncclGetVersion", &get_version, &status);
  if (!status.ok()) return status;
  if (get_version(&nccl.version) != nccl::Result::kSuccess || nccl.version < kOldest) {
    return absl::FailedPreconditionError(absl::StrCat(
        library.path(), " is NCCL ", NcclVersionText(nccl.version), ", which is too old: ", Remedy()));
  }
  Find(library, "ncclGetUniqueId", &nccl.get_unique_id, &status);
  Find(library, "ncclCommInitRankConfig", &nccl.comm_init_rank_config, &status);
  Find(library, "ncclCommGetAsyncError", &nccl.comm_get_async_error, &status);
  Find(library, "ncclCommFinalize", &nccl.comm_finalize, &status);
  Find(library, "ncclCommDestroy", &nccl.comm_destroy, &status);
  Find(library, "ncclCommAbort", &nccl.comm_abort, &status);
  Find(library, "ncclAllReduce", &nccl.all_reduce, &status);
  Find(library, "ncclBroadcast", &nccl.broadcast, &status);
  Find(library, "ncclGetErrorString", &nccl.get_error_string, &status);
  if (!status.ok()) return status;
  return nccl;
}

}  // namespace

absl::StatusOr<NcclLibrary> NcclLibrary::Open() {
  const char* const named = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): nobody sets any
  if (named != nullptr && *named != '\0') return OpenAt(named);
  const absl::StatusOr<SharedLibrary> loaded = SharedLibrary::Loaded(kName);
  return loaded.ok() ? Use(*loaded) : OpenAt(kName);
}

absl::StatusOr<NcclLibrary> NcclLibrary::OpenAt(const std::string& path) {
  const absl::StatusOr<SharedLibrary> library = OpenLibrary(path);
  if (!library.ok()) return library.status();
  return Use(*library);
}

absl::Status NcclLibrary::StatusOf(nccl::Result result, absl::string_view doing) const {
  if (result == nccl::Result::kSuccess || result == nccl::Result::kInProgress) return absl::OkStatus();
  const std::string text = absl::StrCat("NCCL, ", doing, ": ", get_error_string(result));
  const bool elsewhere = result == nccl::Result::kRemoteError || result == nccl::Result::kSystemError;
  return elsewhere ? absl::UnavailableError(text) : absl::InternalError(text);
}

std::string NcclVersionText(int version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace adaptdl::comm
