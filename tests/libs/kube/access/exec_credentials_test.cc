#include "libs/kube/access/exec_credentials.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/base/manual_clock.h"

namespace adaptdl::kube {
namespace {

using ::testing::HasSubstr;

constexpr char kVersion[] = "client.authentication.k8s.io/v1";

class ExecCredentialsTest : public ::testing::Test {
 protected:
  ExecCredentialsTest() {
    char folder[] = "/tmp/adaptdl-exec-XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~ExecCredentialsTest() override { std::filesystem::remove_all(folder_); }

  // A shell's script that counts how often it ran.
  ExecOptions Script(const std::string& script) {
    return {.api_version = kVersion,
            .command = {"sh", "-c", absl::StrCat("echo x >> ", folder_, "/runs\n", script)},
            .install_hint = "get it from the provider"};
  }
  // One that prints a token, the number of its run, which expires after so long.
  ExecOptions Token(absl::Duration life) {
    const std::string expires =
        absl::FormatTime(absl::RFC3339_full, clock_.Now() + life, absl::UTCTimeZone());
    return Script(absl::StrCat("echo '{\"apiVersion\":\"", kVersion,
                               "\",\"kind\":\"ExecCredential\",\"status\":{\"expirationTimestamp\":\"",
                               expires, "\",\"token\":\"'$(wc -l < ", folder_, "/runs)'\"}}'"));
  }
  absl::Status ErrorOf(const ExecOptions& options, const std::stop_token& stop = {}) {
    ExecCredentials credentials(options, &clock_);
    return credentials.Get(stop).status();
  }

  ManualClock clock_;
  std::string folder_;
};

TEST_F(ExecCredentialsTest, KeepsATokenUntilItExpires) {
  ExecCredentials credentials(Token(absl::Hours(1)), &clock_);
  const auto first = credentials.Get({});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->bearer_token, "1");
  clock_.Advance(absl::Minutes(59));
  EXPECT_EQ(credentials.Get({})->bearer_token, "1");
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(credentials.Get({})->bearer_token, "2");
}

TEST_F(ExecCredentialsTest, MakesAnotherWhenOneIsRefused) {
  ExecCredentials credentials(Token(absl::Hours(1)), &clock_);
  const Credentials first = *credentials.Get({});
  credentials.Refused(first);
  EXPECT_EQ(credentials.Get({})->bearer_token, "2");
  // Somebody else hears late that the first was refused.
  credentials.Refused(first);
  EXPECT_EQ(credentials.Get({})->bearer_token, "2");
}

TEST_F(ExecCredentialsTest, RunsOnceForAllWhoWait) {
  ExecCredentials credentials(Token(absl::Hours(1)), &clock_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(credentials.Get({})->bearer_token, "1"); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ExecCredentialsTest, TakesCertificates) {
  ExecCredentials credentials(
      Script(absl::StrCat("echo '{\"apiVersion\":\"", kVersion,
                          "\",\"kind\":\"ExecCredential\",\"status\":{\"clientCertificateData\":\"c\","
                          "\"clientKeyData\":\"k\"}}'")),
      &clock_);
  EXPECT_EQ(credentials.Get({})->certificate_pem, "c");
  EXPECT_EQ(credentials.Get({})->key_pem, "k");
}

TEST_F(ExecCredentialsTest, AProgramThatFailsIsAReasonWithAHint) {
  for (const char* script :
       {"exit 3", "echo nonsense", "echo '{\"kind\":\"ExecCredential\"}'",
        "echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\"}'"}) {
    const absl::Status error = ErrorOf(Script(script));
    EXPECT_EQ(error.code(), absl::StatusCode::kUnauthenticated) << script;
    EXPECT_THAT(error.message(), HasSubstr("get it from the provider"));
  }
  EXPECT_THAT(ErrorOf(Script("exit 3")).message(), HasSubstr("code 3"));
  EXPECT_EQ(ErrorOf({.api_version = kVersion, .command = {"/nonexistent/login"}}).code(),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(ExecCredentialsTest, EndsAProgramThatTakesTooLong) {
  ExecOptions options = Script("sleep 1000 & echo $! > /dev/null; wait");
  options.timeout = absl::Milliseconds(100);
  EXPECT_THAT(ErrorOf(options).message(), HasSubstr("takes too long"));
  // Also one that has closed its output.
  options = Script("exec >&-; sleep 1000");
  options.timeout = absl::Milliseconds(100);
  EXPECT_THAT(ErrorOf(options).message(), HasSubstr("takes too long"));
}

TEST_F(ExecCredentialsTest, BoundsWhatAProgramPrints) {
  EXPECT_THAT(ErrorOf(Script("yes")).message(), HasSubstr("more than"));
}

TEST_F(ExecCredentialsTest, AStopRequestEndsTheProgramAndWhoeverWaitsForIt) {
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(std::system(absl::StrCat("mkfifo ", fifo).c_str()), 0);
  ExecCredentials credentials(Script(absl::StrCat("echo runs > ", fifo, "; sleep 1000")), &clock_);
  std::stop_source stop;
  const auto get = [&] {
    EXPECT_EQ(credentials.Get(stop.get_token()).status().code(), absl::StatusCode::kCancelled);
  };
  std::thread first(get), second(get);
  EXPECT_EQ(*ReadWholeFile(fifo), "runs\n");
  stop.request_stop();
  first.join();
  second.join();
}

}  // namespace
}  // namespace adaptdl::kube
