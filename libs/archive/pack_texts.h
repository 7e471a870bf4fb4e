// Makes an archive of texts that are in memory: a tar, compressed by Zstandard, which "tar xf" unpacks.
//
// A plain function; thread-safe.

#ifndef ADAPTDL_LIBS_ARCHIVE_PACK_TEXTS_H_
#define ADAPTDL_LIBS_ARCHIVE_PACK_TEXTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace adaptdl::archive {

struct TextFile {
  // Path in the archive, relative, without "..".
  std::string name;
  std::string text;
};

// Writes the archive to `fd`, from where it stands, and leaves it open. All files are of `time`, for their owner alone.
absl::Status PackTexts(const std::vector<TextFile>& files, absl::Time time, int fd);

}  // namespace adaptdl::archive

#endif  // ADAPTDL_LIBS_ARCHIVE_PACK_TEXTS_H_
