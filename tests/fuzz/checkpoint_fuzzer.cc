// Files of a checkpoint folder that something else has written: a state as safetensors, and a manifest. The
// first byte says which.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/elastic/checkpoint/checkpoint_store.h"
#include "libs/elastic/checkpoint/safetensors.h"

namespace {

// In memory where there is such a file system. Removed at the end.
struct ScratchFolder {
  const std::string path = absl::StrCat(std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp",
                                        "/adaptdl-fuzz-", getpid());

  ScratchFolder() {
    std::filesystem::create_directories(path + "/checkpoint-1");
    std::ofstream(path + "/checkpoint-1/model") << "state";
  }
  ~ScratchFolder() { std::filesystem::remove_all(path); }
};

const std::string& Folder() {
  static const ScratchFolder folder;
  return folder.path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    const auto file = adaptdl::elastic::ReadSafetensors(bytes);
    if (!file.ok()) return 0;
    for (const auto& [name, tensor] : file->tensors) {
      // Within the file, to the last byte.
      if (tensor.data.data() < bytes.data() || tensor.data.end() > bytes.end()) std::abort();
    }
    return 0;
  }
  std::ofstream(Folder() + "/checkpoint-1/MANIFEST", std::ios::trunc | std::ios::binary) << bytes;
  (void)adaptdl::elastic::CheckpointStore({.folder = Folder()}).LoadNewest();
  return 0;
}
