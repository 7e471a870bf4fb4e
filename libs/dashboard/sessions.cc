#include "libs/dashboard/sessions.h"

#include <openssl/sha.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libs/base/random_id.h"
#include "libs/dashboard/assets.h"

namespace adaptdl::dashboard {
namespace {

// The prefix has browsers take it from this host by HTTPS only.
constexpr char kCookie[] = "__Host-adaptdl_session";
constexpr int kSessionBytes = 32;
// Of addresses that have tried wrong tokens: who has tried first is forgotten for more.
constexpr size_t kMostAddresses = 4096;
constexpr size_t kMostTokenBytes = 16 << 10;

constexpr char kLoginPage[] = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>AdaptDL</title>
<link rel="icon" href="$ICON" type="image/svg+xml">
<link rel="stylesheet" href="$STYLE">
</head>
<body class="login">
<main>
<section class="card" aria-label="Sign in">
<h1><img src="$ICON" alt="" width="28" height="28"> AdaptDL</h1>
<form method="post" action="/login">
<label for="token">Your token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button type="submit">Sign in</button>
</form>
<p role="alert">$PROBLEM</p>
<p class="label">It is the one that the command has in ADAPTDL_TOKEN; whoever runs the cluster makes it, by <code>adaptdl admin token create</code>.</p>
</section>
</main>
</body>
</html>
)";

// Of one of the files of web/.
std::string AddressOf(absl::string_view name) {
  for (const Asset& asset : Assets()) {
    if (absl::EndsWith(asset.path, absl::StrCat("/", name))) return asset.path;
  }
  return "";
}

httpd::HttpResponse LoginPage(int status, absl::string_view problem) {
  const std::string escaped =
      absl::StrReplaceAll(problem, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
  return {status,
          "text/html; charset=utf-8",
          absl::StrReplaceAll(
              kLoginPage,
              {{"$PROBLEM", escaped}, {"$ICON", AddressOf("icon.svg")}, {"$STYLE", AddressOf("style.css")}}),
          {{"Cache-Control", "no-store"}}};
}

httpd::HttpResponse GoHome(const std::string& cookie) {
  return {303, "", "", {{"Set-Cookie", cookie}, {"Location", "/"}, {"Cache-Control", "no-store"}}};
}

std::string SumOf(const std::string& name) {
  unsigned char sum[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(name.data()), name.size(), sum);
  return std::string(reinterpret_cast<const char*>(sum), sizeof(sum));
}

// The value of the only field of a form. Empty: that is not what the body is.
std::string TokenOf(const std::string& body) {
  constexpr absl::string_view kField = "token=";
  if (!absl::StartsWith(body, kField) || body.size() > kMostTokenBytes) return "";
  std::string token;
  for (size_t at = kField.size(); at < body.size(); ++at) {
    unsigned code = 0;
    if (body[at] == '&') return "";
    if (body[at] == '%' && at + 2 < body.size() && absl::SimpleHexAtoi(body.substr(at + 1, 2), &code)) {
      token.push_back(static_cast<char>(code));
      at += 2;
    } else {
      token.push_back(body[at] == '+' ? ' ' : body[at]);
    }
  }
  token = std::string(absl::StripAsciiWhitespace(token));
  // What no token has, and no header field may have.
  const bool clean = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7f; });
  return clean ? token : "";
}

}  // namespace

std::variant<Guest, Proof, httpd::HttpResponse> Sessions::Meet(const httpd::HttpRequest& request) {
  const std::string name = CookieOf(request, kCookie);
  Guest guest;
  {
    MutexLock lock(&mutex_);
    const auto session = name.empty() ? sessions_.end() : sessions_.find(SumOf(name));
    if (session != sessions_.end() && clock_.Steady() < session->second.begin + options_.lifetime) {
      guest = session->second.guest;
    }
  }
  if (guest.bearer.empty()) return MeetStranger(request);
  if (request.path == "/login" && request.method == "GET") {
    return httpd::HttpResponse{303, "", "", {{"Location", "/"}, {"Cache-Control", "no-store"}}};
  }
  if (request.path != "/logout") return guest;
  if (request.method != "POST" || !IsOfOwnPage(request, guest)) {
    return PageOf(403, "Only the dashboard's own page may ask for this.");
  }
  MutexLock lock(&mutex_);
  sessions_.erase(SumOf(name));
  return GoHome(absl::StrCat(kCookie, "=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0"));
}

std::variant<Guest, Proof, httpd::HttpResponse> Sessions::MeetStranger(const httpd::HttpRequest& request) {
  if (request.path == "/login" && request.method == "POST") {
    // Nobody is to be signed in as somebody else without noticing.
    if (!IsSameOrigin(request)) return LoginPage(403, "Sign in on this page, not on another site's.");
    if (HasToWait(request.peer))
      return LoginPage(429, "Too many wrong tokens came from your address. Wait a minute.");
    Proof proof{TokenOf(request.body), request.peer};
    if (proof.bearer.empty()) return LoginPage(400, "That is no token.");
    return proof;
  }
  if (absl::StartsWith(request.path, "/api/")) {
    return httpd::HttpResponse{401,
                               "application/json",
                               R"({"code":"UNAUTHENTICATED","message":"sign in first"})",
                               {{"Cache-Control", "no-store"}}};
  }
  if (request.method != "GET" && request.method != "HEAD") return PageOf(401, "Sign in first.");
  return LoginPage(200, "");
}

httpd::HttpResponse Sessions::Judge(const Proof& proof, const absl::Status& status) {
  if (status.ok()) {
    MutexLock lock(&mutex_);
    failures_.erase(proof.peer);
  } else if (absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status)) {
    CountFailure(proof.peer);
    return LoginPage(401, "This cluster does not know the token, or it has expired or was revoked.");
  } else {
    return LoginPage(503, "The supervisor does not answer. Try again.");
  }
  return GoHome(Open(proof.bearer));
}

void Sessions::Forget(const Guest& guest) {
  MutexLock lock(&mutex_);
  std::erase_if(sessions_, [&](const auto& session) { return session.second.guest.bearer == guest.bearer; });
}

bool Sessions::Knows(const Guest& guest) const {
  MutexLock lock(&mutex_);
  const auto session = sessions_.find(guest.session);
  return session != sessions_.end() && clock_.Steady() < session->second.begin + options_.lifetime;
}

size_t Sessions::size() const {
  MutexLock lock(&mutex_);
  return sessions_.size();
}

bool Sessions::HasToWait(const std::string& peer) {
  MutexLock lock(&mutex_);
  const auto failures = failures_.find(peer);
  if (failures == failures_.end()) return false;
  if (clock_.Steady() >= failures->second.last + options_.penalty) {
    failures_.erase(failures);
    return false;
  }
  return failures->second.count >= options_.most_failures;
}

void Sessions::CountFailure(const std::string& peer) {
  MutexLock lock(&mutex_);
  if (failures_.size() >= kMostAddresses && !failures_.contains(peer)) {
    failures_.erase(std::min_element(failures_.begin(), failures_.end(), [](const auto& a, const auto& b) {
      return a.second.last < b.second.last;
    }));
  }
  Failures& failures = failures_[peer];
  ++failures.count;
  failures.last = clock_.Steady();
}

std::string Sessions::Open(const std::string& bearer) {
  const std::string name = RandomHex(kSessionBytes);
  MutexLock lock(&mutex_);
  MakeRoom(bearer);
  const std::string sum = SumOf(name);
  sessions_[sum] = {{.bearer = bearer, .token = RandomHex(kSessionBytes), .leaves = true, .session = sum},
                    clock_.Steady()};
  return absl::StrCat(kCookie, "=", name, "; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=",
                      absl::ToInt64Seconds(options_.lifetime));
}

void Sessions::MakeRoom(const std::string& bearer) {
  const absl::Time now = clock_.Steady();
  std::erase_if(sessions_,
                [&](const auto& session) { return now >= session.second.begin + options_.lifetime; });
  const auto older = [](const auto& a, const auto& b) { return a.second.begin < b.second.begin; };
  const auto is_theirs = [&](const auto& session) { return session.second.guest.bearer == bearer; };
  if (static_cast<size_t>(std::count_if(sessions_.begin(), sessions_.end(), is_theirs)) >=
      options_.most_of_token) {
    auto oldest = sessions_.end();
    for (auto session = sessions_.begin(); session != sessions_.end(); ++session) {
      if (is_theirs(*session) && (oldest == sessions_.end() || older(*session, *oldest))) oldest = session;
    }
    sessions_.erase(oldest);
  }
  if (sessions_.size() >= options_.most) {
    sessions_.erase(std::min_element(sessions_.begin(), sessions_.end(), older));
  }
}

}  // namespace adaptdl::dashboard
