#include "libs/dashboard/access.h"

#include <openssl/crypto.h>

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "libs/base/random_id.h"

namespace adaptdl::dashboard {
namespace {

constexpr int kSecretBytes = 24;
// Cookies are shared by all ports of a host.
constexpr char kCookiePrefix[] = "adaptdl_";

std::string HeaderOf(const httpd::HttpRequest& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

// Takes the same time wherever they differ.
bool Same(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

Access::Access()
    : key_(RandomHex(kSecretBytes)), cookie_(RandomHex(kSecretBytes)), token_(RandomHex(kSecretBytes)) {}

bool Access::NamesLoopback(const httpd::HttpRequest& request, int port) {
  const std::string host = absl::AsciiStrToLower(HeaderOf(request, "host"));
  for (const char* name : {"127.0.0.1:", "localhost:", "[::1]:"}) {
    if (host == absl::StrCat(name, port)) return true;
  }
  return false;
}

std::string Access::Exchange(const httpd::HttpRequest& request) {
  const auto key = request.query.find("key");
  if (key == request.query.end() || !Same(key->second, key_)) return "";
  MutexLock lock(&mutex_);
  if (std::exchange(taken_, true)) return "";
  return absl::StrCat(kCookiePrefix, cookie_.substr(0, 8), "=", cookie_,
                      "; Path=/; HttpOnly; SameSite=Strict");
}

bool Access::Admits(const httpd::HttpRequest& request) const {
  const std::string name = absl::StrCat(kCookiePrefix, cookie_.substr(0, 8));
  const std::string cookies = HeaderOf(request, "cookie");
  for (const absl::string_view part : absl::StrSplit(cookies, ';')) {
    const std::pair<absl::string_view, absl::string_view> cookie =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (absl::StripAsciiWhitespace(cookie.first) == name && Same(cookie.second, cookie_)) return true;
  }
  return false;
}

bool Access::MayChange(const httpd::HttpRequest& request) const {
  const std::string site = HeaderOf(request, "sec-fetch-site");
  return Admits(request) && (site.empty() || site == "same-origin") &&
         Same(HeaderOf(request, "x-adaptdl-token"), token_);
}

}  // namespace adaptdl::dashboard
