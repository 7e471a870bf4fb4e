// What the API server says of others: who somebody with a token is, and what somebody may do.
//
// Plain functions; thread-safe. Errors as in the README of libs/kube; our own rights to ask are among them.

#ifndef ADAPTDL_LIBS_KUBE_CLIENT_REVIEWS_H_
#define ADAPTDL_LIBS_KUBE_CLIENT_REVIEWS_H_

#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/kube/client/client.h"

namespace adaptdl::kube {

// Somebody whom the cluster knows.
struct UserInfo {
  // "system:serviceaccount:NAMESPACE:NAME" for a service account.
  std::string name;
  std::string uid = {};
  std::vector<std::string> groups = {};
  std::map<std::string, std::vector<std::string>> extra = {};

  // Of a token that is bound to a pod. Empty: it is not.
  std::string PodName() const;
  std::string PodUid() const;
};

struct TokenAnswer {
  bool authenticated = false;
  // Of one that is authenticated.
  UserInfo user = {};
  // Of one that is not.
  std::string reason = {};
};

// Who has this token. It must be meant for `audience`, which is not empty: a token that was given to us for
// somebody else counts nothing.
absl::StatusOr<TokenAnswer> ReviewToken(const Client& client, const std::string& token,
                                        const std::string& audience, const std::stop_token& stop = {});

struct AccessQuestion {
  UserInfo user;
  // "get", "create", ...
  std::string verb;
  // Of what. `name` empty: any of the type; `name_space` empty: all of them.
  Target target;
};

struct AccessAnswer {
  bool allowed = false;
  // For people; may be empty.
  std::string reason = {};
};

// Whether the cluster's rules let them.
absl::StatusOr<AccessAnswer> ReviewAccess(const Client& client, const AccessQuestion& question,
                                          const std::stop_token& stop = {});

// The same of ourselves, which anybody may ask.
absl::StatusOr<AccessAnswer> ReviewOwnAccess(const Client& client, const std::string& verb,
                                             const Target& target, const std::stop_token& stop = {});

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_CLIENT_REVIEWS_H_
