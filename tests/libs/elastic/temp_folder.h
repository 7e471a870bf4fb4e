// A folder that lives as long as the object.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_TEMP_FOLDER_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_TEMP_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <string>

namespace adaptdl::elastic {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "adaptdl-elastic-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_TEMP_FOLDER_H_
