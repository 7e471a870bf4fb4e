// A job's folder on a node, and a store in memory.

#ifndef ADAPTDL_TESTS_SERVICES_WORKER_OBJECTS_FIXTURE_H_
#define ADAPTDL_TESTS_SERVICES_WORKER_OBJECTS_FIXTURE_H_

#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/objectstore/memory_store.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {

// What a node has of one job.
class NodeFolder {
 public:
  NodeFolder() {
    for (const std::string folder : {"checkpoint", "share"})
      std::filesystem::create_directories(folder_ / folder);
  }

  const std::string& path() const { return folder_.path(); }
  void Write(const std::string& path, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(folder_ / path).parent_path());
    WriteFile(folder_ / path, content);
  }
  std::string Read(const std::string& path) const { return ReadFile(folder_ / path); }
  void Remove(const std::string& path) { std::filesystem::remove_all(folder_ / path); }

  // As the training library does.
  void WriteCheckpoint(int group, int version, const std::string& state) {
    const std::string folder = absl::StrCat("checkpoint/checkpoint-", version, "/");
    Write(folder + "model", state);
    Write(folder + "MANIFEST", absl::StrCat("{\"format\":1,\"group\":", group, ",\"files\":[]}\ncrc32 0\n"));
  }
  // Contents of all files in the folder, by path.
  std::map<std::string, std::string> Files(const std::string& folder) const {
    std::map<std::string, std::string> files;
    const std::filesystem::path root = folder_ / folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.is_regular_file())
        files[entry.path().lexically_relative(root).string()] = ReadFile(entry.path().string());
    }
    return files;
  }

 private:
  TempFolder folder_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_TESTS_SERVICES_WORKER_OBJECTS_FIXTURE_H_
