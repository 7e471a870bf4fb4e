// Who may call what: the one table.
//
// A method that is not in it is served to nobody. A test holds it against the descriptors of all services.
// Thread-safe.

#ifndef ADAPTDL_LIBS_SERVICE_SECURITY_PERMISSIONS_H_
#define ADAPTDL_LIBS_SERVICE_SECURITY_PERMISSIONS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libs/service/security/identity.h"

namespace adaptdl::security {

// How a method is guarded before its handler.
enum class Access {
  // Everybody, without credentials.
  kPublic,
  // The roles of the entry.
  kRoles,
  // Whoever sends a bearer token: the handler holds it against that of the replica's group.
  kReplica,
};

// What a cluster's rules must allow an account (authority.h) that calls a method. Verb empty: they don't say
// anything of it, and no account may call it.
struct ClusterRule {
  absl::string_view verb = {};
  // "adaptdljobs", "pods".
  absl::string_view resource = {};
  // "log". Empty: the resource itself.
  absl::string_view subresource = {};
};

struct Permission {
  // "/package.Service/Method"
  absl::string_view method;
  Access access = Access::kRoles;
  // Bit 1 << Role for each role that may call it.
  uint32_t roles = 0;
  // Whether each call is noted in the audit log. Refused calls are, whatever they call.
  bool audited = false;
  // Whether the handler checks the namespace of the request, too.
  bool in_namespace = false;
  // In the namespace of the request where the handler checks that, else in the whole cluster.
  ClusterRule rule = {};
  // Whether accounts may call it whatever the rules are.
  bool for_all_accounts = false;
};

absl::Span<const Permission> AllPermissions();

// Null: there is no such method.
const Permission* FindPermission(absl::string_view method);

bool IsAllowed(const Permission& permission, Role role);

// The roles that may call it, for people: "admin, operator or user".
std::string AllowedRoles(const Permission& permission);

}  // namespace adaptdl::security

#endif  // ADAPTDL_LIBS_SERVICE_SECURITY_PERMISSIONS_H_
