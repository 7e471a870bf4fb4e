#include "services/worker/notices/aws_metadata.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace adaptdl::worker {
namespace {

using Json = nlohmann::json;

constexpr int kTokenSeconds = 21'600;  // the longest
constexpr size_t kMaxToken = 1024;

// {"action": "terminate", "time": "2030-01-01T12:00:00Z"}
absl::StatusOr<Notice> ReadAction(const std::string& text, absl::Time now) {
  const Json answer = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto field = [&](const char* name) {
    const auto found = answer.is_object() ? answer.find(name) : answer.end();
    return answer.is_object() && found != answer.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string action = field("action");
  absl::Time time;
  std::string error;
  if (action.empty() || !absl::ParseTime(absl::RFC3339_full, field("time"), &time, &error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("spot/instance-action: ", Quoted(text), " names no action and its time"));
  }
  const bool known = action == "terminate" || action == "stop" || action == "hibernate";
  return Notice{
      .deadline = std::max(time, now),
      .reason = absl::StrCat("AWS takes the spot instance back (", known ? action : Quoted(action), ")")};
}

}  // namespace

absl::StatusOr<std::optional<Notice>> AwsMetadata::Look(const std::stop_token& stop) {
  const absl::StatusOr<std::string> action = Get("spot/instance-action", stop);
  if (action.ok()) {
    absl::StatusOr<Notice> notice = ReadAction(*action, clock_->Now());
    if (!notice.ok()) return notice.status();
    return *std::move(notice);
  }
  if (!absl::IsNotFound(action.status())) return action.status();
  const absl::StatusOr<std::string> advice = Get("events/recommendations/rebalance", stop);
  if (advice.ok()) {
    return Notice{.reason = "AWS is likely to take the spot instance back (rebalance recommendation)",
                  .likely_only = true};
  }
  if (!absl::IsNotFound(advice.status())) return advice.status();
  return std::nullopt;
}

absl::StatusOr<InstanceIdentity> AwsMetadata::Identify(const std::stop_token& stop) {
  const absl::StatusOr<std::string> id = Get("instance-id", stop);
  if (!id.ok()) return id.status();
  return ReadIdentity(id, Get("local-ipv4", stop));
}

absl::StatusOr<std::string> AwsMetadata::Get(absl::string_view name, const std::stop_token& stop) {
  if (clock_->Steady() >= token_end_) {
    if (absl::Status status = RenewToken(stop); !status.ok()) return status;
  }
  const auto get = [&] {
    return client_.Get(absl::StrCat("/latest/meta-data/", name),
                       {absl::StrCat("X-aws-ec2-metadata-token: ", token_)}, stop);
  };
  absl::StatusOr<std::string> answer = get();
  if (!absl::IsUnauthenticated(answer.status())) return answer;
  // It may have been started again.
  token_end_ = absl::InfinitePast();
  if (absl::Status status = RenewToken(stop); !status.ok()) return status;
  return get();
}

absl::Status AwsMetadata::RenewToken(const std::stop_token& stop) {
  const absl::Time asked = clock_->Steady();
  absl::StatusOr<std::string> token = client_.Put(
      "/latest/api/token", {absl::StrCat("X-aws-ec2-metadata-token-ttl-seconds: ", kTokenSeconds)}, stop);
  if (!token.ok()) {
    // Without it nothing can be known: not that there is nothing to know.
    return absl::UnavailableError(token.status().message());
  }
  const bool usable =
      !token->empty() && token->size() <= kMaxToken &&
      std::all_of(token->begin(), token->end(), [](char c) { return absl::ascii_isgraph(c); });
  if (!usable) return absl::UnavailableError("the metadata service gave a token that can't be one");
  token_ = *std::move(token);
  token_end_ = asked + absl::Seconds(kTokenSeconds) / 2;
  return absl::OkStatus();
}

}  // namespace adaptdl::worker
