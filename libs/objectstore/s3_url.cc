#include "libs/objectstore/s3_url.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/objectstore/object_store.h"

namespace adaptdl::objectstore {
namespace {

// What is left of a key for what lies below.
constexpr size_t kMaxPrefixBytes = 512;

bool IsBucket(absl::string_view name) {
  if (name.size() < 3 || name.size() > 63 || absl::StrContains(name, "..")) return false;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (!absl::ascii_islower(byte) && !absl::ascii_isdigit(byte) && c != '-' && c != '.') return false;
  }
  return absl::ascii_isalnum(static_cast<unsigned char>(name.front())) &&
         absl::ascii_isalnum(static_cast<unsigned char>(name.back()));
}

}  // namespace

std::string S3Location::Key(absl::string_view rest) const {
  return prefix.empty() ? std::string(rest) : absl::StrCat(prefix, "/", rest);
}

absl::StatusOr<S3Location> ParseS3Url(absl::string_view field, absl::string_view url) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(field, " \"", absl::CEscape(url.substr(0, 256)), "\" ",
                                                   why, ": write s3://BUCKET/PREFIX"));
  };
  absl::string_view rest = url;
  if (!absl::ConsumePrefix(&rest, "s3://")) return refuse("does not begin with s3://");
  const std::pair<std::string, std::string> parts = absl::StrSplit(rest, absl::MaxSplits('/', 1));
  if (!IsBucket(parts.first)) return refuse("names no bucket");
  S3Location location{.bucket = parts.first, .prefix = std::string(absl::StripSuffix(parts.second, "/"))};
  if (location.prefix.empty()) return location;
  if (location.prefix.size() > kMaxPrefixBytes) return refuse("has a prefix of more than 512 bytes");
  if (const absl::Status status = CheckKey(location.prefix); !status.ok()) return refuse(status.message());
  return location;
}

absl::Status CheckEndpoint(absl::string_view field, absl::string_view url) {
  if (url.empty()) return absl::OkStatus();
  absl::string_view rest = url;
  const bool has_scheme = absl::ConsumePrefix(&rest, "https://") || absl::ConsumePrefix(&rest, "http://");
  rest = absl::StripSuffix(rest, "/");
  bool ok = has_scheme && !rest.empty();
  for (const char c : rest) {
    ok = ok && (absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-._:[]", c));
  }
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " \"", absl::CEscape(url.substr(0, 256)),
                                                 "\" is not valid: write https://HOST or https://HOST:PORT"));
}

}  // namespace adaptdl::objectstore
