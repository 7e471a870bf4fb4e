#include "services/supervisor/enrolment/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace adaptdl::supervisor {
namespace {

std::string Written(int family, const void* address) {
  char text[INET6_ADDRSTRLEN] = "";
  return inet_ntop(family, address, text, sizeof(text)) == nullptr ? "" : text;
}

std::string Normal(const std::string& text) {
  in_addr four{};
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) return Written(AF_INET, &four);
  in6_addr six{};
  if (inet_pton(AF_INET6, text.c_str(), &six) != 1) return "";
  if (IN6_IS_ADDR_V4MAPPED(&six)) {
    std::memcpy(&four, six.s6_addr + 12, sizeof(four));
    return Written(AF_INET, &four);
  }
  return Written(AF_INET6, &six);
}

}  // namespace

std::string AddressOf(absl::string_view peer) {
  if (absl::ConsumePrefix(&peer, "ipv4:")) return Normal(std::string(peer.substr(0, peer.rfind(':'))));
  if (!absl::ConsumePrefix(&peer, "ipv6:")) return Normal(std::string(peer));
  const std::string plain = absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
  const size_t end = plain.rfind(']');
  if (!absl::StartsWith(plain, "[") || end == std::string::npos) return "";
  // Without the interface of a link-local one.
  const std::string inner = plain.substr(1, end - 1);
  return Normal(inner.substr(0, inner.find('%')));
}

}  // namespace adaptdl::supervisor
