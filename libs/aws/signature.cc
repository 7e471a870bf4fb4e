#include "libs/aws/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace adaptdl::aws {
namespace {

constexpr char kAlgorithm[] = "AWS4-HMAC-SHA256";
// What a proxy or the HTTP client may change on the way.
constexpr absl::string_view kUnsignedHeaders[] = {"connection", "expect", "transfer-encoding", "user-agent"};
// What signing adds.
constexpr absl::string_view kOwnHeaders[] = {"authorization", "x-amz-content-sha256", "x-amz-date",
                                             "x-amz-security-token"};

std::string Hmac(absl::string_view key, absl::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  // Fails only where the library has no SHA-256: nothing sensible could follow.
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size) == nullptr) {
    std::abort();
  }
  return std::string(reinterpret_cast<const char*>(digest), size);
}

struct UrlParts {
  std::string host;
  std::string path;
  std::string query;
};

absl::StatusOr<UrlParts> SplitUrl(const std::string& url) {
  const size_t scheme_end = url.find("://");
  const std::string scheme = url.substr(0, std::min(scheme_end, url.size()));
  if (scheme_end == std::string::npos || (scheme != "https" && scheme != "http")) {
    return absl::InvalidArgumentError(absl::StrCat("\"", url, "\" is no URL; write https://HOST/PATH"));
  }
  const size_t begin = scheme_end + 3;
  const size_t end = std::min(url.find_first_of("/?", begin), url.size());
  UrlParts parts;
  parts.host = absl::AsciiStrToLower(url.substr(begin, end - begin));
  if (parts.host.empty() || parts.host.find('@') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("\"", url, "\" names no host"));
  }
  // As the HTTP client sends it.
  const absl::string_view usual_port = scheme == "https" ? ":443" : ":80";
  if (absl::EndsWith(parts.host, usual_port)) parts.host.resize(parts.host.size() - usual_port.size());
  const size_t question = std::min(url.find('?', end), url.size());
  parts.path = url.substr(end, question - end);
  if (question < url.size()) parts.query = url.substr(question + 1);
  if (parts.path.empty()) parts.path = "/";
  return parts;
}

// Without empty parts and dots.
std::string TidyPath(const std::string& path) {
  std::vector<absl::string_view> parts;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  const bool ends_as_folder = absl::EndsWith(path, "/") && !parts.empty();
  return absl::StrCat("/", absl::StrJoin(parts, "/"), ends_as_folder ? "/" : "");
}

std::string CanonicalQuery(const std::string& query) {
  if (query.empty()) return "";
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const absl::string_view part : absl::StrSplit(query, '&')) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    pairs.push_back(pair);
  }
  std::sort(pairs.begin(), pairs.end());
  return absl::StrJoin(pairs, "&", absl::PairFormatter("="));
}

// By names in lower case, with spaces as they are compared.
std::map<std::string, std::string> CanonicalHeaders(const HttpRequest& request, const std::string& host) {
  std::map<std::string, std::string> headers;
  for (const std::string& header : request.headers) {
    const std::pair<std::string, std::string> field = absl::StrSplit(header, absl::MaxSplits(':', 1));
    const std::string name = absl::AsciiStrToLower(absl::StripAsciiWhitespace(field.first));
    if (absl::c_linear_search(kUnsignedHeaders, name)) continue;
    std::string value = field.second;
    absl::RemoveExtraAsciiWhitespace(&value);
    std::string& canonical = headers[name];
    absl::StrAppend(&canonical, canonical.empty() ? "" : ",", value);
  }
  headers["host"] = host;
  return headers;
}

void RemoveOwnHeaders(HttpRequest* request) {
  std::erase_if(request->headers, [](const std::string& header) {
    const std::string name = absl::AsciiStrToLower(header.substr(0, header.find(':')));
    return absl::c_linear_search(kOwnHeaders, name);
  });
}

}  // namespace

std::string Sha256Hex(absl::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr) != 1) std::abort();
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

std::string UriEscape(absl::string_view text, bool keep_slashes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_' || c == '~' ||
        (keep_slashes && c == '/')) {
      escaped.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      escaped.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return escaped;
}

absl::Status Sign(const Credentials& credentials, const SigningOptions& options, absl::Time now,
                  HttpRequest* request) {
  const absl::StatusOr<UrlParts> url = SplitUrl(request->url);
  if (!url.ok()) return url.status();
  const absl::TimeZone utc = absl::UTCTimeZone();
  const std::string time = absl::FormatTime("%Y%m%dT%H%M%SZ", now, utc);
  const std::string day = absl::FormatTime("%Y%m%d", now, utc);
  const std::string payload_hash =
      options.payload_hash.empty() ? Sha256Hex(request->body) : options.payload_hash;

  RemoveOwnHeaders(request);
  request->headers.push_back(absl::StrCat("X-Amz-Date: ", time));
  if (options.s3) request->headers.push_back(absl::StrCat("X-Amz-Content-Sha256: ", payload_hash));
  if (!credentials.session_token.empty())
    request->headers.push_back(absl::StrCat("X-Amz-Security-Token: ", credentials.session_token));

  std::vector<std::string> names;
  std::string header_lines;
  for (const auto& [name, value] : CanonicalHeaders(*request, url->host)) {
    names.push_back(name);
    absl::StrAppend(&header_lines, name, ":", value, "\n");
  }
  const std::string signed_headers = absl::StrJoin(names, ";");
  const std::string path = options.s3 ? url->path : UriEscape(TidyPath(url->path), /*keep_slashes=*/true);
  const std::string canonical = absl::StrJoin(
      {request->method, path, CanonicalQuery(url->query), header_lines, signed_headers, payload_hash}, "\n");

  const std::string scope = absl::StrCat(day, "/", options.region, "/", options.service, "/aws4_request");
  const std::string to_sign =
      absl::StrJoin({std::string(kAlgorithm), time, scope, Sha256Hex(canonical)}, "\n");
  std::string key = absl::StrCat("AWS4", credentials.secret_access_key);
  for (const std::string& part : {day, options.region, options.service, std::string("aws4_request")})
    key = Hmac(key, part);
  request->headers.push_back(absl::StrCat(
      "Authorization: ", kAlgorithm, " Credential=", credentials.access_key_id, "/", scope,
      ", SignedHeaders=", signed_headers, ", Signature=", absl::BytesToHexString(Hmac(key, to_sign))));
  return absl::OkStatus();
}

}  // namespace adaptdl::aws
