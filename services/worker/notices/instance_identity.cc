#include "services/worker/notices/instance_identity.h"

#include <arpa/inet.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::worker {
namespace {

constexpr size_t kMaxName = 128;
constexpr size_t kMaxQuoted = 80;

absl::StatusOr<std::string> ReadAddress(absl::string_view text) {
  const std::string address(absl::StripAsciiWhitespace(text));
  in6_addr parsed = {};
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, address.c_str(), &parsed) == 1) return address;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the machine's address, ", Quoted(address), ", is no IP address"));
}

}  // namespace

absl::StatusOr<InstanceIdentity> ReadIdentity(const absl::StatusOr<std::string>& instance_id,
                                              const absl::StatusOr<std::string>& address) {
  if (!instance_id.ok()) return instance_id.status();
  if (!address.ok()) return address.status();
  absl::StatusOr<std::string> name = ReadName(*instance_id);
  if (!name.ok()) return name.status();
  absl::StatusOr<std::string> host = ReadAddress(*address);
  if (!host.ok()) return host.status();
  return InstanceIdentity{*std::move(name), *std::move(host)};
}

absl::StatusOr<std::string> ReadName(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  const bool visible = std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isgraph(c); });
  if (visible && !text.empty() && text.size() <= kMaxName) return std::string(text);
  return absl::InvalidArgumentError(absl::StrCat("the machine's name, ", Quoted(text), ", is none"));
}

std::string Quoted(absl::string_view answer) {
  const bool cut = answer.size() > kMaxQuoted;
  return absl::StrCat("\"", absl::CHexEscape(answer.substr(0, kMaxQuoted)), cut ? "...\"" : "\"");
}

}  // namespace adaptdl::worker
