#include "libs/service/security/identity.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace adaptdl::security {
namespace {

constexpr size_t kMaxNamespaceName = 63;

constexpr std::array<std::pair<Role, absl::string_view>, 7> kRoles = {{{Role::kUser, "user"},
                                                                       {Role::kOperator, "operator"},
                                                                       {Role::kAdmin, "admin"},
                                                                       {Role::kWorker, "worker"},
                                                                       {Role::kAllocator, "allocator"},
                                                                       {Role::kAutoscaler, "autoscaler"},
                                                                       {Role::kSupervisor, "supervisor"}}};

bool IsLowerAlnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

}  // namespace

absl::string_view RoleName(Role role) {
  for (const auto& [known, name] : kRoles) {
    if (known == role) return name;
  }
  return role == Role::kAccount ? "account" : "unknown";
}

std::optional<Role> ParseRole(absl::string_view name) {
  for (const auto& [role, known] : kRoles) {
    if (known == name) return role;
  }
  return std::nullopt;
}

bool IsRoleOfPeople(Role role) {
  return role == Role::kUser || role == Role::kOperator || role == Role::kAdmin;
}

bool IsNamespaceName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNamespaceName && IsLowerAlnum(name.front()) &&
         IsLowerAlnum(name.back()) &&
         std::all_of(name.begin(), name.end(), [](char c) { return IsLowerAlnum(c) || c == '-'; });
}

std::string Describe(const Caller& caller) {
  return caller.proof.empty() ? caller.name : absl::StrCat(caller.proof, " \"", caller.name, "\"");
}

Caller Anonymous() {
  return {.proof = "", .name = "anonymous", .role = Role::kAdmin, .namespaces = {}, .node_id = ""};
}

absl::Status CheckNamespace(const Caller& caller, absl::string_view name_space) {
  if (caller.role == Role::kAdmin || caller.role == Role::kOperator) return absl::OkStatus();
  if (name_space == "*") {
    return absl::PermissionDeniedError(absl::StrCat(
        Describe(caller), " may not use all namespaces at once; that takes an operator or admin"));
  }
  const absl::string_view wanted = name_space.empty() ? "default" : name_space;
  const bool allowed =
      std::find(caller.namespaces.begin(), caller.namespaces.end(), wanted) != caller.namespaces.end();
  if (caller.role == Role::kUser && allowed) return absl::OkStatus();
  // What a stranger wrote comes back only as far as it is a name.
  return absl::PermissionDeniedError(
      absl::StrCat(Describe(caller), " may not use ",
                   IsNamespaceName(wanted) ? absl::StrCat("namespace \"", wanted, "\"") : "that namespace"));
}

absl::Status CheckNode(const Caller& caller, absl::string_view node_id) {
  if (caller.role != Role::kWorker || caller.node_id.empty() || caller.node_id == node_id) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat(Describe(caller), " may not be another node than \"", caller.node_id, "\""));
}

}  // namespace adaptdl::security
