// Makes an archive of a folder: a tar of GNU's kind, compressed by Zstandard, without times, owners and more of the modes
// than whether a file can be executed. The same contents give the same bytes, and so the same digest, whoever packs
// them where and when; another version of Zstandard may give others, which costs an upload and nothing else.
//
// A plain function; thread-safe.

#ifndef ADAPTDL_LIBS_ARCHIVE_PACK_H_
#define ADAPTDL_LIBS_ARCHIVE_PACK_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "libs/archive/folder_scan.h"

namespace adaptdl::archive {

struct Packed {
  // SHA-256 of the archive.
  std::string digest;
  // Of the archive, in bytes.
  int64_t size = 0;
};

// Writes the archive to `fd`, from where it stands, and leaves it open. `contents`: of this folder. `progress` hears how
// many bytes of files are in. ABORTED: a file has changed meanwhile; pack again. Others: of reading and writing.
absl::StatusOr<Packed> PackFolder(const std::string& folder, const FolderContents& contents, int fd,
                                  const std::function<void(int64_t bytes)>& progress = nullptr);

}  // namespace adaptdl::archive

#endif  // ADAPTDL_LIBS_ARCHIVE_PACK_H_
