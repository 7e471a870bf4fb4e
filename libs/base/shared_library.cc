#include "libs/base/shared_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/program_folder.h"

namespace adaptdl {
namespace {

int OpenFlags() {
  int flags = RTLD_NOW | RTLD_LOCAL;
// The sanitizers' run-time libraries do not work in a library that prefers its own symbols.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  flags |= RTLD_DEEPBIND;
#endif
  return flags;
}

// Whether it is a path, and nothing is there: no reason that anybody wants to read.
bool IsMissing(const std::string& place) {
  std::error_code error;
  return place.find('/') != std::string::npos && !std::filesystem::exists(place, error);
}

}  // namespace

std::vector<std::string> LibraryPlaces(const std::string& file) {
  std::vector<std::string> places = {BesideProgram(file), BesideProgram(absl::StrCat("../lib/", file)), file};
  const std::string module = ModuleFolder();
  if (!module.empty() && module != ProgramFolder())
    places.insert(places.begin(), absl::StrCat(module, "/", file));
  return places;
}

absl::StatusOr<SharedLibrary> SharedLibrary::Open(const std::vector<std::string>& places,
                                                  absl::string_view remedy) {
  std::string reason;
  for (const std::string& place : places) {
    if (IsMissing(place)) continue;
    void* const handle = dlopen(place.c_str(), OpenFlags());
    if (handle != nullptr) return SharedLibrary(place, handle);
    reason = absl::StrCat(": ", dlerror());  // NOLINT(concurrency-mt-unsafe): per thread in glibc
  }
  const std::string file = places.empty() ? "" : std::filesystem::path(places.back()).filename().string();
  return absl::NotFoundError(absl::StrCat("cannot open ", file, " (looked for ", absl::StrJoin(places, ", "),
                                          ")", reason, "; ", remedy));
}

absl::StatusOr<SharedLibrary> SharedLibrary::Loaded(const std::string& name) {
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return absl::NotFoundError(absl::StrCat(name, " is not open in this process"));
  return SharedLibrary(name, handle);
}

absl::StatusOr<void*> SharedLibrary::Address(const std::string& symbol) const {
  void* const address = dlsym(handle_, symbol.c_str());
  if (address != nullptr) return address;
  return absl::NotFoundError(absl::StrCat(
      path_, " has no symbol ", symbol, "; it is not the one of this version: install that of this program"));
}

}  // namespace adaptdl
