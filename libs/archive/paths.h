// Which paths and links may stand in an archive. Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_ARCHIVE_PATHS_H_
#define ADAPTDL_LIBS_ARCHIVE_PATHS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl::archive {

// Bytes.
inline constexpr size_t kMaxPathBytes = 4095;
inline constexpr size_t kMaxNameBytes = 255;
// Folders one in the other, each of which costs a descriptor when it is unpacked.
inline constexpr int kMaxDepth = 128;

// What is wrong with the path of an entry: "is absolute". Empty: it is relative, has no empty part, no "." and no "..",
// and leads into the folder wherever that is.
std::string WrongWithPath(absl::string_view path);

// The same of the target of a symbolic link at `path`. It is relative, and ".." stands at its beginning only, no more
// often than `path` has folders: so it stays within the folder, also when it leads over other such links.
std::string WrongWithLink(absl::string_view path, absl::string_view target);

}  // namespace adaptdl::archive

#endif  // ADAPTDL_LIBS_ARCHIVE_PATHS_H_
