// Lets machines in as nodes: gives out join tokens, and certificates to who proves that it may be the node it names.
//
//   a join token         lets one key in, once, until it expires; the same key gets its certificate again, so that an
//                        answer that was lost is no lost token
//   a machine of a pool  is let in from the address at which the autoscaler says that it is: one key, once. Jobs on the
//                        machine have its address, too; they come after its worker, with another key, and are refused.
//                        A machine that has lost its key joins with a token, or is replaced
//   a renewal            by the certificate of the same node
//
// None of them takes over a node that is registered and alive, unless it has the node's own key or certificate.
//
// Of a token its SHA-256 is kept, in the store: it is good at the next supervisor that leads, and what was used at one
// is used for all, as a use is stored in the same transaction that looks whether it was.
//
// The authority's files are read for each certificate, so that they may be renewed. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_ENROLMENT_ENROLMENT_MANAGER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_ENROLMENT_ENROLMENT_MANAGER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/enrolment_service.pb.h"
#include "services/supervisor/pools/vouched_nodes.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

struct EnrolmentOptions {
  // Paths of PEM files: of the node authority, and the certificates that everybody trusts. Empty: machines can't join.
  std::string authority_certificate = {};
  std::string authority_key = {};
  std::string trusted = {};
  // Life of nodes' certificates. Workers renew them when a third is left.
  absl::Duration certificate_lifetime = absl::Hours(24 * 30);
};

// OK: the files can be used, or none are given. INVALID_ARGUMENT names the flags.
absl::Status CheckEnrolment(const EnrolmentOptions& options);

class EnrolmentManager {
 public:
  // Tokens that are good at a time, and machines of clouds that are remembered.
  static constexpr size_t kMaxTokens = 1000;
  static constexpr size_t kMaxInstances = 20'000;
  static constexpr absl::Duration kDefaultLifetime = absl::Hours(1);
  static constexpr absl::Duration kMaxLifetime = absl::Hours(24 * 7);

  // What a call comes with, beside its request.
  struct Peer {
    // IP address. Empty: not known.
    std::string address = {};
    // The node of which it has shown a valid certificate. Empty: of none.
    std::string certified_node = {};
  };

  // `core` and `vouched` outlive it. `random_hex`: lower-case hexadecimal digits of so many random bytes.
  EnrolmentManager(const EnrolmentOptions& options, Core* core, const VouchedNodes* vouched,
                   std::function<std::string(int)> random_hex)
      : options_(options), core_(core), vouched_(vouched), random_hex_(std::move(random_hex)) {}

  // `caller`: who has proved to be it (Admission::IdentityOf). A repeated request makes a token that takes the place of
  // the first one, as that is kept nowhere. FAILED_PRECONDITION: the first one was used. RESOURCE_EXHAUSTED: there are
  // too many.
  absl::StatusOr<v1::CreateJoinTokenResponse> CreateJoinToken(const v1::CreateJoinTokenRequest& request,
                                                              const std::string& caller);

  // Errors: see the protocol; FAILED_PRECONDITION: a good proof, but the node is alive, or the authority has ended.
  absl::StatusOr<v1::EnrolResponse> Enrol(const v1::EnrolRequest& request, const Peer& peer);

 private:
  // Whether `key` may be the node by this proof. Notes that it is let in.
  absl::Status Admit(Transaction* transaction, const v1::EnrolRequest& request, const Peer& peer,
                     const std::string& key) const;
  absl::Status AdmitByToken(Transaction* transaction, const v1::EnrolRequest& request,
                            const std::string& key) const;
  absl::Status AdmitInstance(Transaction* transaction, const v1::EnrolRequest& request, const Peer& peer,
                             const std::string& key) const;
  // Forgets what has expired. How many there are left of those whose ids begin so.
  static size_t Prune(Transaction* transaction, absl::string_view prefix);

  const EnrolmentOptions options_;
  Core* const core_;
  const VouchedNodes* const vouched_;
  const std::function<std::string(int)> random_hex_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_ENROLMENT_ENROLMENT_MANAGER_H_
