// Who makes a call: what a certificate, a token or an identity provider has proved.
//
// Values; all functions are thread-safe.

#ifndef ADAPTDL_LIBS_SERVICE_SECURITY_IDENTITY_H_
#define ADAPTDL_LIBS_SERVICE_SECURITY_IDENTITY_H_

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace adaptdl::security {

enum class Role {
  // People and their programs, by a token.
  kUser,      // the jobs of some namespaces
  kOperator,  // reads everything, drains and removes nodes
  kAdmin,     // everything
  // Services, by a certificate.
  kWorker,
  kAllocator,
  kAutoscaler,
  kSupervisor,
  // Of a cluster whose own rules say what it may do (authority.h).
  kAccount,
};

// "user", "operator", ...
absl::string_view RoleName(Role role);
// The reverse, of any role that a certificate or a token can have; nothing for other text.
std::optional<Role> ParseRole(absl::string_view name);
// Whether people have it: user, operator, admin.
bool IsRoleOfPeople(Role role);

// Most namespaces that one caller may be given.
inline constexpr size_t kMaxNamespaces = 1024;

// What namespaces are called: a DNS label, that is 1 to 63 lower-case letters, digits and "-", with a letter
// or digit at both ends.
bool IsNamespaceName(absl::string_view name);

// What a cluster's rules go by, beside the name.
struct Account {
  std::string uid = {};
  std::vector<std::string> groups = {};
  std::map<std::string, std::vector<std::string>> extra = {};
};

struct Caller {
  // What has proved who it is: "token", "identity" (of an identity provider), "certificate", "account" (of a
  // cluster), "job" (a token that one was given); empty: nothing.
  std::string proof;
  // Of the token, of the person or program, of the service ("worker/node-1"), or of the job ("vision/digits").
  std::string name;
  Role role = Role::kUser;
  // Of a user: the namespaces it may use. Others are not limited to any.
  std::vector<std::string> namespaces;
  // Of a worker whose certificate names a node: the only one that it may be. Empty: any.
  std::string node_id;
  // Of role kAccount; else null.
  std::shared_ptr<const Account> account = nullptr;
};

// For people: `token "ci"`.
std::string Describe(const Caller& caller);

// Whoever calls a server that asks for no credentials (--insecure).
Caller Anonymous();

// PERMISSION_DENIED unless `caller` may use the namespace (empty: "default"), with a text that depends on
// nothing else, so that nobody learns what there is in a namespace of others. "*", all of them, is for admins
// and operators. Accounts are not for this function: AccessAuthority answers for them.
absl::Status CheckNamespace(const Caller& caller, absl::string_view name_space);

// PERMISSION_DENIED unless `caller` may speak for the node.
absl::Status CheckNode(const Caller& caller, absl::string_view node_id);

}  // namespace adaptdl::security

#endif  // ADAPTDL_LIBS_SERVICE_SECURITY_IDENTITY_H_
