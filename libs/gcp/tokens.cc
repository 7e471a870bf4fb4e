#include "libs/gcp/tokens.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "libs/base/utf8.h"
#include "nlohmann/json.hpp"

namespace adaptdl::gcp {
namespace {

// Google's last an hour, and the metadata service gives out the same one until five minutes before its end.
constexpr absl::Duration kRenewBefore = absl::Minutes(4);
// One that expires on the way to the service is of no use.
constexpr absl::Duration kMargin = absl::Seconds(10);
constexpr absl::Duration kFetchPause = absl::Seconds(30);
constexpr size_t kMaxTokenBytes = 16 << 10;
constexpr int64_t kMaxLifeSeconds = int64_t{24} * 3600;

bool IsOneWord(absl::string_view text) {
  for (const char c : text) {
    if (c <= ' ' || c >= 0x7f) return false;
  }
  return !text.empty() && text.size() <= kMaxTokenBytes;
}

}  // namespace

absl::StatusOr<Token> ParseToken(absl::string_view answer, absl::Time now) {
  const auto json = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::UnauthenticatedError("what was answered for a token is no JSON");
  const auto text = json.find("access_token");
  const auto life = json.find("expires_in");
  const bool has_both =
      text != json.end() && text->is_string() && life != json.end() && life->is_number_integer();
  if (!has_both || !IsOneWord(text->get_ref<const std::string&>()))
    return absl::UnauthenticatedError("what was answered has no access token and its life");
  const int64_t seconds = life->get<int64_t>();
  if (seconds <= 0 || seconds > kMaxLifeSeconds)
    return absl::UnauthenticatedError(absl::StrCat("an access token with a life of ", seconds, " s is none"));
  return Token{text->get<std::string>(), now + absl::Seconds(seconds)};
}

absl::StatusOr<std::string> KeptToken::Get(const std::stop_token& stop) {
  MutexLock lock(&mutex_);
  if (stop.stop_requested()) return absl::CancelledError("a stop was requested");
  const bool may_wait = clock_.Steady() < next_fetch_;
  if (Lasts(kRenewBefore) || (Lasts(kMargin) && may_wait)) return kept_->text;
  absl::StatusOr<Token> fetched = fetch_(stop);
  if (fetched.ok()) {
    kept_ = *std::move(fetched);
    next_fetch_ = absl::InfinitePast();
    return kept_->text;
  }
  if (!Lasts(kMargin) || absl::IsCancelled(fetched.status())) return fetched.status();
  next_fetch_ = clock_.Steady() + kFetchPause;
  return kept_->text;
}

void KeptToken::Refused(const std::string& token) {
  MutexLock lock(&mutex_);
  // Somebody else may have renewed it.
  if (kept_.has_value() && kept_->text == token) kept_.reset();
}

}  // namespace adaptdl::gcp
