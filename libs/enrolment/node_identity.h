// A machine's own side of its enrolment: its key, the certificate that it asks the supervisor for, and their files.
//
//   <folder>/key.pem      the private key (mode 0600), made here; it never leaves the machine
//   <folder>/cert.pem     the certificate, followed by that of the authority that signed it
//   <folder>/next.key     the key of a renewal that has begun
//   <folder>/next.pem     its certificate, until both have taken their places
//
// A first enrolment that was cut short goes on with the same key, which is what makes a proof good a second time.
// A renewal has a new key. Its place is taken before that of its certificate; whoever reads between the two finds that
// they don't match, and looks again, as servers and clients do (libs/rpc/security.h). What a crash leaves half done,
// the next start completes.
//
// Not thread-safe: one at a time in a folder.

#ifndef ADAPTDL_LIBS_ENROLMENT_NODE_IDENTITY_H_
#define ADAPTDL_LIBS_ENROLMENT_NODE_IDENTITY_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/enrolment_service.pb.h"
#include "libs/rpc/endpoints.h"

namespace adaptdl::enrolment {

// Files of an identity.
std::string KeyFile(const std::string& folder);
std::string CertificateFile(const std::string& folder);

struct Validity {
  absl::Time not_before;
  absl::Time not_after;
};

// When the certificate in `folder` is good. NOT_FOUND: there is none. FAILED_PRECONDITION: it is not of the key beside
// it, or of another node than `node_id`; the text says what to do.
absl::StatusOr<Validity> ReadIdentity(const std::string& folder, const std::string& node_id);

// What the supervisor is told to let the machine in.
struct Proof {
  // One of them.
  std::string join_token;
  std::string instance_id;
};

// Makes one call. Errors are the server's, or of the way there.
using Enrol = std::function<absl::StatusOr<v1::EnrolResponse>(const v1::EnrolRequest& request)>;

// The call to whichever of the supervisors leads.
Enrol CallOf(rpc::Endpoints* supervisors, absl::Duration timeout);

// Whether a call that has failed so may succeed later.
bool IsWorthRetrying(const absl::Status& status);

// Asks once for the node's first certificate, and stores it. INTERNAL: what came back is not what was asked for.
absl::Status EnrolOnce(const std::string& folder, const std::string& node_id, const Proof& proof,
                       const Enrol& enrol);
// The same by the certificate that is there, for its successor.
absl::Status RenewOnce(const std::string& folder, const std::string& node_id, const Enrol& enrol);

// Completes a renewal that was cut short after its certificate had come. To be called before ReadIdentity(), at a start.
absl::Status FinishRenewal(const std::string& folder);

// When a certificate is to be renewed: a third of its life is left.
absl::Time RenewalTime(const Validity& validity);

}  // namespace adaptdl::enrolment

#endif  // ADAPTDL_LIBS_ENROLMENT_NODE_IDENTITY_H_
