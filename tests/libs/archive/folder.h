// A folder of a test, which goes at its end. For one thread.

#ifndef ADAPTDL_TESTS_LIBS_ARCHIVE_FOLDER_H_
#define ADAPTDL_TESTS_LIBS_ARCHIVE_FOLDER_H_

#include <fcntl.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "libs/archive/pack.h"
#include "libs/base/unique_fd.h"

namespace adaptdl::archive {

class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "adaptdl-archive-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  void Write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(*this / name).parent_path());
    std::ofstream(*this / name, std::ios::binary) << content;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(*this / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

// Packs all of the folder that is not left out into the file.
inline absl::StatusOr<Packed> PackAll(const std::string& folder, const std::string& archive) {
  const auto contents = ScanFolder(folder, {});
  if (!contents.ok()) return contents.status();
  const UniqueFd file(open(archive.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  return PackFolder(folder, *contents, file.get());
}

}  // namespace adaptdl::archive

#endif  // ADAPTDL_TESTS_LIBS_ARCHIVE_FOLDER_H_
