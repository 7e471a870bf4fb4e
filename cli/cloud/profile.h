// What a user keeps of a cluster that was launched: how to reach it and who he is to it, in a folder of its own that only he
// can read.
//
//   $XDG_CONFIG_HOME/adaptdl/clusters/NAME      or ~/.config/adaptdl/clusters/NAME
//     cluster.yaml                  the file that it was launched from
//     key.pem, recipient.pem        what its head encrypts to, until it has told
//     profile.json, ca.pem, token   once it has
//
// Plain functions; thread-safe. Two commands at a time on one cluster undo each other's work.

#ifndef ADAPTDL_CLI_CLOUD_PROFILE_H_
#define ADAPTDL_CLI_CLOUD_PROFILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/cloud/announcement.h"

namespace adaptdl::cli {

struct Profile {
  std::string name;
  std::string head;  // what Amazon calls it
  std::string supervisor;
  std::string ca_file;
  std::string token_file;
};

// Of the cluster of this name. INVALID_ARGUMENT: it is none.
absl::StatusOr<std::string> ProfileFolder(const std::string& name);

// NOT_FOUND: there is none, or the launch has not come that far; the text says what to do.
absl::StatusOr<Profile> ReadProfile(const std::string& name);
// Takes the place of an earlier one.
absl::StatusOr<Profile> WriteProfile(const std::string& name, const std::string& head,
                                     const std::string& supervisor, const Announcement& announcement);

// The key of the launch that is under way; made if there is none yet.
absl::StatusOr<RecipientKey> LaunchKey(const std::string& name, absl::Time now);

// Keeps the text of the file that the cluster is launched from, and the text that was kept. NOT_FOUND: none was.
absl::Status KeepClusterText(const std::string& name, const std::string& text);
absl::StatusOr<std::string> KeptClusterText(const std::string& name);

absl::Status RemoveProfile(const std::string& name);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CLOUD_PROFILE_H_
