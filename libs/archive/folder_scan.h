// What of a folder travels: all that its rules do not leave out (ignore_rules.h, of .gitignore and .adaptdlignore), within
// bounds.
//
// A plain function; thread-safe. Errors name the file, and say how to leave it out.

#ifndef ADAPTDL_LIBS_ARCHIVE_FOLDER_SCAN_H_
#define ADAPTDL_LIBS_ARCHIVE_FOLDER_SCAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace adaptdl::archive {

// Files of rules, of which the second one stands above the first.
inline constexpr char kGitIgnoreFile[] = ".gitignore";
inline constexpr char kIgnoreFile[] = ".adaptdlignore";

inline constexpr int64_t kDefaultMaxBytes = int64_t{2} << 30;
inline constexpr int64_t kDefaultMaxFiles = 100'000;

struct ScanLimits {
  // Of the files' contents together.
  int64_t max_bytes = kDefaultMaxBytes;
  // Of files, folders and links.
  int64_t max_files = kDefaultMaxFiles;
};

// What a rule leaves out: a file, or a folder with all that is in it.
struct LeftOut {
  std::string path;
  bool is_folder = false;
  // For people (IgnoreRules::WhyIgnored).
  std::string rule;
};
// More are not noted.
inline constexpr size_t kMaxNotedLeftOut = 10'000;

struct FolderEntry {
  enum class Kind { kFile, kFolder, kLink };

  // Relative to the folder.
  std::string path;
  Kind kind = Kind::kFile;
  // Of a file, in bytes.
  int64_t size = 0;
  // Of a file: whether its owner may execute it.
  bool executable = false;
  // Of a symbolic link.
  std::string target;
};

struct FolderContents {
  // In the order of their paths, which puts folders before what is in them.
  std::vector<FolderEntry> entries;
  int64_t bytes = 0;
  // By path.
  std::vector<LeftOut> left_out;
};

// INVALID_ARGUMENT: there is a link that leads out of the folder, or what is neither file, folder nor link.
// RESOURCE_EXHAUSTED: it is beyond the limits; names what has most of it. Others: of reading.
absl::StatusOr<FolderContents> ScanFolder(const std::string& folder, const ScanLimits& limits);

}  // namespace adaptdl::archive

#endif  // ADAPTDL_LIBS_ARCHIVE_FOLDER_SCAN_H_
