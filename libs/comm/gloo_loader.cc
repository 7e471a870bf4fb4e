#include "libs/comm/gloo_loader.h"

#include <dlfcn.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adaptdl::comm {
namespace {

constexpr char kLibrary[] = "libadaptdl_gloo.so";

int OpenFlags() {
  int flags = RTLD_NOW | RTLD_LOCAL;
// The sanitizers' run-time libraries do not work in a library that prefers its own symbols.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  flags |= RTLD_DEEPBIND;
#endif
  return flags;
}

absl::StatusOr<TransportFactory> LoadFactory() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const std::vector<std::string> candidates = {(folder / kLibrary).string(),
                                               (folder / ".." / "lib" / kLibrary).string(), kLibrary};
  std::string reason;
  for (const std::string& candidate : candidates) {
    if (candidate.find('/') != std::string::npos && !std::filesystem::exists(candidate, error)) continue;
    void* handle = dlopen(candidate.c_str(), OpenFlags());
    void* factory = handle == nullptr ? nullptr : dlsym(handle, kGlooTransportFactory);
    if (factory != nullptr) return reinterpret_cast<TransportFactory>(factory);
    reason = dlerror();  // NOLINT(concurrency-mt-unsafe): per thread in glibc
  }
  return absl::NotFoundError(absl::StrCat("cannot open ", kLibrary, " (looked for ",
                                          absl::StrJoin(candidates, ", "), ")", reason.empty() ? "" : ": ",
                                          reason, "; put it beside the program or into ../lib"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> CreateGlooTransport(const TransportOptions& options) {
  // Never closed: others may be using it.
  static const auto* const factory = new absl::StatusOr<TransportFactory>(LoadFactory());
  if (!factory->ok()) return factory->status();
  std::string error;
  std::unique_ptr<Transport> transport((**factory)(&options, &error));
  if (transport == nullptr) return absl::UnavailableError(absl::StrCat("Gloo cannot listen: ", error));
  return transport;
}

}  // namespace adaptdl::comm
