// What lets machines in as nodes, and whom it has let in, as the store keeps it. Plain values.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_JOINS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_JOINS_H_

#include <string>

#include "absl/time/time.h"

namespace adaptdl::supervisor {

// A join token, of which only the hash is kept, or a machine of a cloud that has joined.
struct JoinRecord {
  // "token/" and the SHA-256 of its secret, or "instance/" and what its cloud calls the machine.
  std::string id;
  // The node that it let in, or the only one that it may. Empty: any new one.
  std::string node_id;
  // SHA-256 of the public key that it let in. Empty: it has let nobody in yet.
  std::string key;
  // Of a token: SHA-256 of who asked for it by which request. Empty: of none.
  std::string request;
  // Wall time, from which on it is forgotten.
  absl::Time expires;

  bool operator==(const JoinRecord&) const = default;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_JOINS_H_
