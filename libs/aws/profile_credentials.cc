#include "libs/aws/profile_credentials.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/file.h"

namespace adaptdl::aws {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;
// Ways to credentials that this program does not know.
constexpr const char* kUnsupported[] = {"role_arn", "credential_process", "sso_session", "sso_start_url"};

}  // namespace

std::optional<std::map<std::string, std::string>> IniSection(absl::string_view text,
                                                             absl::string_view section) {
  std::optional<std::map<std::string, std::string>> settings;
  bool within = false;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line.front() == '[' && line.back() == ']') {
      within = absl::StripAsciiWhitespace(line.substr(1, line.size() - 2)) == section;
      if (within && !settings.has_value()) settings.emplace();
      continue;
    }
    const size_t equals = line.find('=');
    if (!within || equals == absl::string_view::npos) continue;
    (*settings)[absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(0, equals)))] =
        std::string(absl::StripAsciiWhitespace(line.substr(equals + 1)));
  }
  return settings;
}

absl::Status ProfileCredentials::Missing(const std::string& why) const {
  return is_asked_for_ ? absl::UnauthenticatedError(absl::StrCat(why, " (AWS_PROFILE asks for it)"))
                       : absl::NotFoundError(why);
}

absl::StatusOr<Credentials> ProfileCredentials::Fetch(const std::stop_token& /*stop*/) {
  const absl::StatusOr<std::string> text = ReadWholeFile(file_, kMaxFileBytes);
  if (absl::IsNotFound(text.status())) return Missing("there is no such file");
  if (!text.ok()) return absl::UnauthenticatedError(text.status().message());
  const auto settings = IniSection(*text, profile_);
  if (!settings.has_value()) return Missing(absl::StrCat("it has no profile [", profile_, "]"));
  const auto setting = [&](const char* name) {
    const auto found = settings->find(name);
    return found == settings->end() ? "" : found->second;
  };
  const Credentials credentials = {.access_key_id = setting("aws_access_key_id"),
                                   .secret_access_key = setting("aws_secret_access_key"),
                                   .session_token = setting("aws_session_token")};
  if (!credentials.access_key_id.empty() && !credentials.secret_access_key.empty()) return credentials;
  for (const char* name : kUnsupported) {
    if (setting(name).empty()) continue;
    return absl::UnauthenticatedError(
        absl::StrCat("its profile [", profile_, "] has ", name,
                     ", which this program can't follow: write aws_access_key_id and aws_secret_access_key"));
  }
  return absl::UnauthenticatedError(
      absl::StrCat("its profile [", profile_, "] lacks aws_access_key_id or aws_secret_access_key"));
}

}  // namespace adaptdl::aws
