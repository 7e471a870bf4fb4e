#include "libs/dashboard/access.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/base/random_id.h"

namespace adaptdl::dashboard {
namespace {

constexpr int kSecretBytes = 24;

// Cookies are shared by all ports of a host: each dashboard has a name of its own.
std::string CookieName(const std::string& cookie) { return absl::StrCat("adaptdl_", cookie.substr(0, 8)); }

}  // namespace

Access::Access()
    : key_(RandomHex(kSecretBytes)), cookie_(RandomHex(kSecretBytes)), token_(RandomHex(kSecretBytes)) {}

std::variant<Guest, Proof, httpd::HttpResponse> Access::Meet(const httpd::HttpRequest& request) {
  if (!NamesLoopback(request)) return PageOf(421, "This is not the host that the dashboard is served as.");
  const bool asks_with_key = request.method == "GET" && request.path == "/" && request.query.count("key") > 0;
  if (Same(CookieOf(request, CookieName(cookie_)), cookie_)) {
    if (!asks_with_key) return Guest{.token = token_};
    // The key is not to stay in the address bar.
    return httpd::HttpResponse{303, "", "", {{"Location", "/"}}};
  }
  const std::string cookie = asks_with_key ? Exchange(request) : "";
  if (cookie.empty()) {
    return PageOf(403,
                  "Open the URL that \"adaptdl dashboard\" has printed. It can be used once: for another "
                  "browser, start another dashboard.");
  }
  return httpd::HttpResponse{
      303, "", "", {{"Set-Cookie", cookie}, {"Location", "/"}, {"Cache-Control", "no-store"}}};
}

httpd::HttpResponse Access::Judge(const Proof& /*proof*/, const absl::Status& /*status*/) {
  return PageOf(403, "Tokens are not asked for here.");
}

bool Access::NamesLoopback(const httpd::HttpRequest& request) const {
  const std::string host = absl::AsciiStrToLower(HeaderOf(request, "host"));
  for (const char* name : {"127.0.0.1:", "localhost:", "[::1]:"}) {
    if (host == absl::StrCat(name, port_.load())) return true;
  }
  return false;
}

std::string Access::Exchange(const httpd::HttpRequest& request) {
  const auto key = request.query.find("key");
  if (key == request.query.end() || !Same(key->second, key_)) return "";
  MutexLock lock(&mutex_);
  if (std::exchange(taken_, true)) return "";
  return absl::StrCat(CookieName(cookie_), "=", cookie_, "; Path=/; HttpOnly; SameSite=Strict");
}

}  // namespace adaptdl::dashboard
