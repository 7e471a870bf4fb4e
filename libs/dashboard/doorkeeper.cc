#include "libs/dashboard/doorkeeper.h"

#include <openssl/crypto.h>

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace adaptdl::dashboard {

std::string HeaderOf(const httpd::HttpRequest& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

std::string CookieOf(const httpd::HttpRequest& request, absl::string_view name) {
  const std::string cookies = HeaderOf(request, "cookie");
  for (const absl::string_view part : absl::StrSplit(cookies, ';')) {
    const std::pair<absl::string_view, absl::string_view> cookie =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (absl::StripAsciiWhitespace(cookie.first) == name) return std::string(cookie.second);
  }
  return "";
}

bool Same(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool IsSameOrigin(const httpd::HttpRequest& request) {
  const std::string site = HeaderOf(request, "sec-fetch-site");
  return site.empty() || site == "same-origin";
}

bool IsOfOwnPage(const httpd::HttpRequest& request, const Guest& guest) {
  return IsSameOrigin(request) && !guest.token.empty() &&
         Same(HeaderOf(request, "x-adaptdl-token"), guest.token);
}

httpd::HttpResponse PageOf(int status, absl::string_view text) {
  return {status, "text/plain; charset=utf-8", absl::StrCat(text, "\n"), {{"Cache-Control", "no-store"}}};
}

}  // namespace adaptdl::dashboard
