#include "libs/poolfile/pool_file_watcher.h"

#include <utility>

namespace adaptdl::poolfile {

absl::StatusOr<std::unique_ptr<PoolFileWatcher>> PoolFileWatcher::Open(const std::string& path) {
  const auto read = [](const std::string& file) -> absl::StatusOr<std::shared_ptr<const PoolFile>> {
    absl::StatusOr<PoolFile> parsed = ReadPoolFile(file);
    if (!parsed.ok()) return parsed.status();
    return std::make_shared<const PoolFile>(*std::move(parsed));
  };
  auto file = File::Open(path, read, "the pool file");
  if (!file.ok()) return file.status();
  return std::unique_ptr<PoolFileWatcher>(new PoolFileWatcher(*std::move(file)));
}

}  // namespace adaptdl::poolfile
