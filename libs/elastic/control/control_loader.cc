#include "libs/elastic/control/control_loader.h"

#include <dlfcn.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adaptdl::elastic {
namespace {

constexpr char kLibrary[] = "libadaptdl_control.so";
constexpr char kFactory[] = "AdaptdlCreateControlPlane";

int OpenFlags() {
  int flags = RTLD_NOW | RTLD_LOCAL;
// The sanitizers' run-time libraries do not work in a library that prefers its own symbols.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  flags |= RTLD_DEEPBIND;
#endif
  return flags;
}

std::vector<std::string> Candidates(const std::string& library) {
  if (!library.empty()) return {library};
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  return {(folder / kLibrary).string(), (folder / ".." / "lib" / kLibrary).string(), kLibrary};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlPlane>> LoadGrpcControlPlane(const GrpcControlPlaneOptions& options,
                                                                   const std::string& library) {
  const std::vector<std::string> candidates = Candidates(library);
  void* handle = nullptr;
  std::string reason;
  for (const std::string& candidate : candidates) {
    std::error_code error;
    if (candidate.find('/') != std::string::npos && !std::filesystem::exists(candidate, error)) continue;
    handle = dlopen(candidate.c_str(), OpenFlags());
    if (handle != nullptr) break;
    reason = dlerror();  // NOLINT(concurrency-mt-unsafe): per thread in glibc
  }
  if (handle == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "cannot open the control library (looked for ", absl::StrJoin(candidates, ", "), ")",
        reason.empty() ? "" : ": ", reason,
        "; put it beside the program or into ../lib, or set ADAPTDL_CONTROL_LIBRARY to its path"));
  }
  using Factory = ControlPlane* (*)(const GrpcControlPlaneOptions*);
  const auto factory = reinterpret_cast<Factory>(dlsym(handle, kFactory));
  if (factory == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("the control library has no symbol ", kFactory, "; it is not the one of this version"));
  }
  return std::unique_ptr<ControlPlane>(factory(&options));
}

}  // namespace adaptdl::elastic
