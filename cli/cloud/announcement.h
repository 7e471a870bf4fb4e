// How a supervisor host tells who has launched it what is needed to talk to it, though neither its user data nor anything else
// that was given to it is secret: on its console, which Amazon shows to who has the right to see it, encrypted to a key that
// never leaves the user's machine.
//
// The console has lines of others between: each line of the announcement says which one it is of how many.
//
// Plain functions; thread-safe. Errors of OpenSSL: INTERNAL.

#ifndef ADAPTDL_CLI_CLOUD_ANNOUNCEMENT_H_
#define ADAPTDL_CLI_CLOUD_ANNOUNCEMENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adaptdl::cli {

struct Announcement {
  std::string cluster;
  // The authority of the services' certificates, in PEM.
  std::string authority;
  // Of an administrator.
  std::string token;

  friend bool operator==(const Announcement&, const Announcement&) = default;
};

// A key in PEM, and a certificate of it by which others encrypt; the certificate is no secret.
struct RecipientKey {
  std::string key;
  std::string certificate;
};
absl::StatusOr<RecipientKey> MakeRecipientKey(absl::Time now);

// Lines for the console. INVALID_ARGUMENT: the certificate is none.
absl::StatusOr<std::string> Seal(const Announcement& announcement, absl::string_view recipient_certificate);

// The last announcement that is complete in what a console has shown. NOT_FOUND: there is none yet. PERMISSION_DENIED: it is
// for another key.
absl::StatusOr<Announcement> FindAnnouncement(absl::string_view console, const RecipientKey& key);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CLOUD_ANNOUNCEMENT_H_
