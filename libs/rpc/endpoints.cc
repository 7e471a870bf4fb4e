#include "libs/rpc/endpoints.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/rpc/channel.h"

namespace adaptdl::rpc {
namespace {

bool IsAddress(absl::string_view text) {
  if (absl::StartsWith(text, "unix:")) return text.size() > 5;
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return false;
  int port = 0;
  const bool spaces =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isspace(c); });
  return !spaces && absl::SimpleAtoi(text.substr(colon + 1), &port) && port > 0 && port < 65536;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseEndpoints(absl::string_view flag, absl::string_view text) {
  std::vector<std::string> addresses;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    part = absl::StripAsciiWhitespace(part);
    if (!IsAddress(part)) {
      return absl::InvalidArgumentError(absl::StrCat(
          flag, " \"", text, "\" is not valid: give host:port, or several of them, separated by commas"));
    }
    if (std::find(addresses.begin(), addresses.end(), part) != addresses.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": ", part, " is there twice; give each address once"));
    }
    addresses.emplace_back(part);
  }
  return addresses;
}

bool IsEndpointFailure(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

Endpoints::Endpoints(std::vector<std::string> addresses,
                     std::function<std::shared_ptr<grpc::Channel>(const std::string& address)> make_channel)
    : addresses_(std::move(addresses)),
      make_channel_(std::move(make_channel)),
      channels_(addresses_.size()) {}

Endpoints::Endpoints(std::vector<std::string> addresses, const ClientSecurity& security)
    : Endpoints(std::move(addresses),
                [credentials = MakeClientCredentials(security)](const std::string& address) {
                  return CreateChannel(address, credentials);
                }) {}

Endpoint Endpoints::current() {
  MutexLock lock(&mutex_);
  const size_t index = number_ % addresses_.size();
  std::shared_ptr<grpc::Channel>& channel = channels_[index];
  if (channel == nullptr) channel = make_channel_(addresses_[index]);
  return {addresses_[index], channel, number_};
}

void Endpoints::GoOn(const Endpoint& failed) {
  MutexLock lock(&mutex_);
  if (failed.number != number_) return;
  ++number_;
  const std::shared_ptr<grpc::Channel>& next = channels_[number_ % addresses_.size()];
  // It may have come up since it was tried last: the pauses are the caller's.
  if (next != nullptr) grpc::experimental::ChannelResetConnectionBackoff(next.get());
}

}  // namespace adaptdl::rpc
