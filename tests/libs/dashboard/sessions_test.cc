#include "libs/dashboard/sessions.h"

#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"

namespace adaptdl::dashboard {
namespace {

class SessionsTest : public testing::Test {
 protected:
  static httpd::HttpRequest Request(const std::string& method, const std::string& path) {
    httpd::HttpRequest request;
    request.method = method;
    request.path = path;
    request.peer = "10.0.0.1";
    return request;
  }
  // The cookie of somebody whose token the supervisor has taken.
  std::string SignIn(const std::string& token) {
    const httpd::HttpResponse response = sessions_.Judge({token, "10.0.0.1"}, absl::OkStatus());
    for (const auto& [name, value] : response.headers) {
      if (name == "Set-Cookie") return value.substr(0, value.find(';'));
    }
    return "";
  }
  bool IsIn(const std::string& cookie) {
    httpd::HttpRequest request = Request("GET", "/");
    request.headers["cookie"] = absl::StrCat("theme=dark; ", cookie);
    return std::holds_alternative<Guest>(sessions_.Meet(request));
  }

  ManualClock clock_;
  Sessions sessions_{{.lifetime = absl::Hours(1), .most = 4, .most_of_token = 2, .most_failures = 3},
                     &clock_};
};

TEST_F(SessionsTest, TheOldestMakeRoom) {
  const std::string first = SignIn("ann");
  clock_.Advance(absl::Seconds(1));
  const std::string second = SignIn("ann");
  clock_.Advance(absl::Seconds(1));
  const std::string third = SignIn("ann");
  EXPECT_FALSE(IsIn(first)) << "of one token there are two";
  EXPECT_TRUE(IsIn(second));
  EXPECT_TRUE(IsIn(third));
  for (const char* token : {"bob", "cy", "dan"}) {
    clock_.Advance(absl::Seconds(1));
    SignIn(token);
  }
  EXPECT_EQ(sessions_.size(), 4u);
  EXPECT_FALSE(IsIn(second));
  EXPECT_TRUE(IsIn(third));
}

TEST_F(SessionsTest, TheyEndInTime) {
  const std::string cookie = SignIn("ann");
  // Whoever has signed in needs no page for that.
  httpd::HttpRequest request = Request("GET", "/login");
  request.headers["cookie"] = cookie;
  const auto sent_on = sessions_.Meet(request);
  ASSERT_TRUE(std::holds_alternative<httpd::HttpResponse>(sent_on));
  EXPECT_EQ(std::get<httpd::HttpResponse>(sent_on).status, 303);
  clock_.Advance(absl::Minutes(59));
  EXPECT_TRUE(IsIn(cookie));
  clock_.Advance(absl::Minutes(1));
  EXPECT_FALSE(IsIn(cookie));
}

TEST_F(SessionsTest, FailuresOfOneAddressAreNotAnothers) {
  for (int i = 0; i < 3; ++i) sessions_.Judge({"guess", "10.0.0.1"}, absl::UnauthenticatedError(""));
  httpd::HttpRequest request = Request("POST", "/login");
  request.body = "token=ann";
  const auto refused = sessions_.Meet(request);
  ASSERT_TRUE(std::holds_alternative<httpd::HttpResponse>(refused));
  EXPECT_EQ(std::get<httpd::HttpResponse>(refused).status, 429);
  request.peer = "10.0.0.2";
  const auto heard = sessions_.Meet(request);
  ASSERT_TRUE(std::holds_alternative<Proof>(heard));
  EXPECT_EQ(std::get<Proof>(heard).bearer, "ann");
}

TEST_F(SessionsTest, AForgottenGuestIsOutEverywhere) {
  const std::string first = SignIn("ann");
  const std::string second = SignIn("ann");
  const std::string other = SignIn("bob");
  sessions_.Forget({.bearer = "ann"});
  EXPECT_FALSE(IsIn(first));
  EXPECT_FALSE(IsIn(second));
  EXPECT_TRUE(IsIn(other));
}

}  // namespace
}  // namespace adaptdl::dashboard
