// Takes an archive apart that anybody may have made, a tar compressed by Zstandard or gzip: nothing is written but below the folder, no link leads out of it,
// and there is no more of anything than the limits allow, however small the archive is.
//
// A plain function; thread-safe.

#ifndef ADAPTDL_LIBS_ARCHIVE_UNPACK_H_
#define ADAPTDL_LIBS_ARCHIVE_UNPACK_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace adaptdl::archive {

struct UnpackOptions {
  // Of the files' contents together, and of files, folders and links.
  int64_t max_bytes = int64_t{16} << 30;
  int64_t max_files = 1'000'000;
  // Whom all of it is given to, but for the folder itself. None: it stays ours.
  struct Owner {
    uid_t uid = 0;
    gid_t gid = 0;
  };
  std::optional<Owner> owner = std::nullopt;
};

// `folder` is empty, and nobody else writes to it meanwhile. Files get the mode 0644, or 0755 if they can be executed, and
// folders 0755. INVALID_ARGUMENT: it is no archive of ours, or holds what must not be; OUT_OF_RANGE: it is beyond the
// limits; others: of the disk, which is full with RESOURCE_EXHAUSTED. What was written before stays, for the caller to remove.
absl::Status UnpackArchive(const std::string& archive, const std::string& folder,
                           const UnpackOptions& options);

}  // namespace adaptdl::archive

#endif  // ADAPTDL_LIBS_ARCHIVE_UNPACK_H_
