// Opens shared libraries at run time, ours and what a machine may have, apart from everything else in the process.
//
//   const absl::StatusOr<SharedLibrary> library =
//       SharedLibrary::Open(LibraryPlaces("libadaptdl_x.so"), "put it beside the program or into ../lib");
//   const absl::StatusOr<Factory*> factory = library->Find<Factory>("AdaptdlCreateX");
//
// Such a library may bring other versions of what the program has too (a prebuilt LibTorch carries a protobuf
// of its own): its symbols are seen by nobody but itself, and it sees its own first.
//
// A library stays open for the life of the process, as others may use what came from it. Thread-safe.

#ifndef ADAPTDL_LIBS_BASE_SHARED_LIBRARY_H_
#define ADAPTDL_LIBS_BASE_SHARED_LIBRARY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl {

// Where a library of ours may be, in this order: beside the library that this code is part of, where that is one
// (of a Python package, say), beside the program, in ../lib of the program's folder, and where the dynamic linker
// looks.
std::vector<std::string> LibraryPlaces(const std::string& file);

class SharedLibrary {
 public:
  // Opens the first of `places` that can be opened. NOT_FOUND: none can; the text names the places, what was
  // wrong with the last one, and `remedy`, what the user can do about it.
  static absl::StatusOr<SharedLibrary> Open(const std::vector<std::string>& places, absl::string_view remedy);

  // The one of this name (no path) that the process has opened already, whoever did. NOT_FOUND: there is none.
  static absl::StatusOr<SharedLibrary> Loaded(const std::string& name);

  // Where it was found.
  const std::string& path() const { return path_; }

  // A function of the library; it must have this type. NOT_FOUND: there is none of that name.
  template <typename Function>
  absl::StatusOr<Function*> Find(const std::string& symbol) const {
    const absl::StatusOr<void*> address = Address(symbol);
    if (!address.ok()) return address.status();
    return reinterpret_cast<Function*>(*address);
  }

 private:
  SharedLibrary(std::string path, void* handle) : path_(std::move(path)), handle_(handle) {}

  absl::StatusOr<void*> Address(const std::string& symbol) const;

  std::string path_;
  void* handle_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_SHARED_LIBRARY_H_
