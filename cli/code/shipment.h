// Packs a folder, and brings the archive to the supervisor, if that has it not yet. What has come there stays when the connection breaks
// or another supervisor takes over: the upload goes on from there.
//
// Plain functions. They wait for the disk and the network, and show their progress on a terminal.

#ifndef ADAPTDL_CLI_CODE_SHIPMENT_H_
#define ADAPTDL_CLI_CODE_SHIPMENT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/job.pb.h"
#include "cli/client.h"
#include "cli/context.h"
#include "libs/archive/folder_scan.h"
#include "libs/archive/pack.h"
#include "libs/base/unique_fd.h"

namespace adaptdl::cli {

struct PackedFolder {
  archive::Packed archive;
  // A file without a name, which goes when it is closed.
  UniqueFd file;
};

// In $TMPDIR, else /tmp. `contents`: of this folder.
absl::StatusOr<PackedFolder> PackForJob(const Context& context, const std::string& folder,
                                        const archive::FolderContents& contents);

// OK: the supervisor has all of it. RESOURCE_EXHAUSTED: it is larger than that takes, or there is no room for it. UNAVAILABLE: nothing has
// come through for a minute.
absl::Status UploadArchive(const Context& context, Client& client, const std::string& name_space,
                           const PackedFolder& packed);

// Both, for a job of this namespace.
absl::StatusOr<v1::CodeArchive> ShipFolder(const Context& context, Client& client,
                                           const std::string& name_space, const std::string& folder,
                                           const archive::FolderContents& contents);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CODE_SHIPMENT_H_
