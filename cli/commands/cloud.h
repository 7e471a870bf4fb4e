// Parts of "adaptdl cloud", each in a file of its own. For one thread.

#ifndef ADAPTDL_CLI_COMMANDS_CLOUD_H_
#define ADAPTDL_CLI_COMMANDS_CLOUD_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/cloud/cluster_file.h"
#include "cli/cloud/ec2_machines.h"
#include "cli/context.h"
#include "libs/aws/credentials.h"
#include "libs/http/http_client.h"
#include "libs/http/pauses.h"

namespace CLI {
class App;
}

namespace adaptdl::cli {

// Amazon, as the user's own tools reach it.
class CloudAccess {
 public:
  CloudAccess(const Context& context, const ClusterFile& cluster, bool dry_run);

  Ec2Machines* ec2() { return &*ec2_; }
  const Pauses* pauses() const { return &pauses_; }

 private:
  HttpClient http_{{}};
  RealPauses pauses_;
  std::unique_ptr<aws::CredentialSource> credentials_;
  std::unique_ptr<Ec2Machines> ec2_;
};

// A cluster by its file, or by its name if it was launched from here. `text`: of the file; null: not wanted.
absl::StatusOr<ClusterFile> FindCluster(const std::string& file_or_name, std::string* text);

// The context for commands to the supervisor of context.cluster (--cluster), as its profile says. What the command line says of the
// supervisor, authority and token counts.
absl::Status UseCluster(Context* context);

// Of "adaptdl cloud".
void AddCloudStatus(CLI::App& cloud, Context* context);
void AddCloudSubmit(CLI::App& cloud, Context* context);
void AddCloudAnnounce(CLI::App& cloud, Context* context);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_COMMANDS_CLOUD_H_
