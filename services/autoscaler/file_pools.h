// The pools of a pool file (docs/pools.md), which people edit while the autoscaler runs.
//
// An edit is in force with the next round; one that is refused, or that a provider can't be made for, changes nothing and
// is told. A pool that is no more in the file has no nodes to be: it stays until its nodes have drained and gone.
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_FILE_POOLS_H_
#define ADAPTDL_SERVICES_AUTOSCALER_FILE_POOLS_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/poolfile/pool_file.h"
#include "libs/poolfile/pool_file_watcher.h"
#include "services/autoscaler/pool_set.h"

namespace adaptdl::autoscaler {

// Makes the provider of a pool. Called again with each edit, when the one that was made before is gone.
using ProviderFactory = std::function<absl::StatusOr<std::shared_ptr<NodePoolProvider>>(
    const poolfile::PoolFile& file, const poolfile::Pool& pool)>;

class FilePools final : public PoolSource {
 public:
  // Fails as ReadPoolFile and the factory do, and if the target can't be followed.
  static absl::StatusOr<std::unique_ptr<FilePools>> Open(const std::string& path, ProviderFactory factory);

  const PoolSet& Get() override;
  void Emptied(const std::string& pool) override;

 private:
  FilePools(std::unique_ptr<poolfile::PoolFileWatcher> watcher, ProviderFactory factory)
      : watcher_(std::move(watcher)), factory_(std::move(factory)) {}

  // Takes the file over, with pools that are no more in it.
  absl::Status TakeOver(const std::shared_ptr<const poolfile::PoolFile>& file,
                        const std::vector<poolfile::Pool>& leaving);

  const std::unique_ptr<poolfile::PoolFileWatcher> watcher_;
  const ProviderFactory factory_;
  // What is in force, and what was tried last.
  std::shared_ptr<const poolfile::PoolFile> file_;
  std::shared_ptr<const poolfile::PoolFile> tried_;
  std::vector<poolfile::Pool> leaving_;
  // Pools that have left since the last round.
  std::set<std::string> gone_;
  absl::Status failure_;
  PoolSet set_;
};

// What the deciding code aims at. INVALID_ARGUMENT: the file's target can't be followed with its pools.
absl::StatusOr<nodepools::Target> TargetOf(const poolfile::PoolFile& file);

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_FILE_POOLS_H_
