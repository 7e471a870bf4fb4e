// A worker's way to its certificate, with an authority in the place of the supervisor and a clock of the test's.

#include "services/worker/node_enrolment.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/base/manual_clock.h"
#include "libs/certificates/certificate_request.h"
#include "libs/certificates/certificates.h"
#include "libs/certificates/node_authority.h"
#include "libs/rpc/retry_info.h"

namespace adaptdl::worker {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kDay = absl::Hours(24);
const char kSecret[] = "adaptdl-join-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

class NodeEnrolmentTest : public testing::Test {
 protected:
  NodeEnrolmentTest() {
    std::string pattern = testing::TempDir() + "/adaptdl-node-enrolment-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    EXPECT_TRUE(certificates::MakeCertificates({.folder = folder_ + "/authority",
                                                .identities = {},
                                                .node_authority = true,
                                                .lifetime = 365 * kDay,
                                                .now = clock_.Now()})
                    .ok());
    EXPECT_TRUE(WriteFileAtomically(folder_ + "/token", kSecret).ok());
  }
  ~NodeEnrolmentTest() override { std::filesystem::remove_all(folder_); }

  // Answers with what is in answers_ first.
  enrolment::Enrol Server() {
    return [this](const v1::EnrolRequest& request) -> absl::StatusOr<v1::EnrolResponse> {
      requests_.push_back(request);
      if (!answers_.empty()) {
        const absl::Status answer = answers_.front();
        answers_.erase(answers_.begin());
        return answer;
      }
      const std::string authority = folder_ + "/authority/node-authority/";
      const auto key = certificates::KeyOfRequest(request.certificate_request());
      v1::EnrolResponse response;
      response.set_certificate(
          certificates::NodeAuthority::FromFiles(authority + "cert.pem", authority + "key.pem")
              ->Issue(key->get(), request.node_id(), clock_.Now(), 30 * kDay)
              .value());
      return response;
    };
  }
  NodeEnrolmentParts Parts(EnrolmentOptions options) {
    return {.options = std::move(options),
            .folder = IdentityFolder(folder_),
            .node_id = "n",
            .enrol = Server(),
            .renew = Server(),
            .clock = &clock_};
  }
  NodeEnrolmentParts ByToken() { return Parts({.token_file = folder_ + "/token"}); }

  std::string folder_;
  ManualClock clock_{absl::FromUnixSeconds(1'800'000'000)};
  std::vector<absl::Status> answers_;
  std::vector<v1::EnrolRequest> requests_;
};

TEST_F(NodeEnrolmentTest, AsksUntilItIsLetIn) {
  answers_ = {absl::UnavailableError("away"), absl::DeadlineExceededError("slow"),
              rpc::WithRetryDelay(absl::ResourceExhaustedError("busy"), absl::Minutes(5))};
  const absl::Time start = clock_.Now();
  ASSERT_TRUE(EnsureIdentity(ByToken()).ok());
  EXPECT_EQ(requests_.size(), 4);
  EXPECT_EQ(requests_.back().join_token(), kSecret);
  EXPECT_GE(clock_.Now() - start, absl::Minutes(2)) << "it waits as it is told, or half of that";
}

TEST_F(NodeEnrolmentTest, AsksNoMoreWhenItIsRefused) {
  answers_ = {absl::PermissionDeniedError("used")};
  const absl::Status status = EnsureIdentity(ByToken());
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("node \"n\""));
  EXPECT_EQ(requests_.size(), 1);
}

TEST_F(NodeEnrolmentTest, NeedsItsTokenOnce) {
  ASSERT_TRUE(EnsureIdentity(ByToken()).ok());
  std::filesystem::remove(folder_ + "/token");
  EXPECT_TRUE(EnsureIdentity(ByToken()).ok());
  EXPECT_EQ(requests_.size(), 1);
  // Off for longer than the certificate lasts.
  clock_.Advance(31 * kDay);
  EXPECT_TRUE(absl::IsNotFound(EnsureIdentity(ByToken())));
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/token", kSecret).ok());
  EXPECT_TRUE(EnsureIdentity(ByToken()).ok());
}

TEST_F(NodeEnrolmentTest, SaysWhatIsWrongWithTheToken) {
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/token", "nonsense").ok());
  EXPECT_THAT(std::string(EnsureIdentity(ByToken()).message()), HasSubstr("no join token"));
  EXPECT_TRUE(requests_.empty());
}

TEST_F(NodeEnrolmentTest, ComesAsAMachineOfAPool) {
  answers_ = {absl::UnavailableError("nobody vouches for this machine yet")};
  ASSERT_TRUE(EnsureIdentity(Parts({.instance = true, .instance_id = "i-1"})).ok());
  EXPECT_EQ(requests_.back().instance_id(), "i-1");
}

TEST_F(NodeEnrolmentTest, RenewsWhenAThirdIsLeft) {
  ASSERT_TRUE(EnsureIdentity(ByToken()).ok());
  IdentityRenewal renewal(ByToken());
  EXPECT_EQ(renewal.Step(), 20 * kDay);
  EXPECT_EQ(requests_.size(), 1);
  clock_.Advance(20 * kDay);
  answers_ = {absl::UnavailableError("away"), absl::PermissionDeniedError("odd")};
  const absl::Duration first = renewal.Step();
  EXPECT_LT(first, absl::Minutes(1));
  EXPECT_GT(renewal.Step(), first);
  renewal.Step();
  EXPECT_TRUE(requests_.back().renewal());
  EXPECT_EQ(renewal.Step(), 20 * kDay);
}

TEST(CheckEnrolmentTest, NamesFlagsThatContradictEachOther) {
  security::SecurityOptions security;
  EXPECT_TRUE(CheckEnrolment({}, security).ok());
  EXPECT_THAT(std::string(CheckEnrolment({.token_file = "t"}, security).message()), HasSubstr("--tls-ca"));
  security.tls.ca = "ca.pem";
  EXPECT_TRUE(CheckEnrolment({.token_file = "t"}, security).ok());
  EXPECT_TRUE(CheckEnrolment({.instance = true, .instance_id = "i"}, security).ok());
  EXPECT_THAT(std::string(CheckEnrolment({.instance = true}, security).message()),
              HasSubstr("--instance-id"));
  EXPECT_FALSE(CheckEnrolment({.token_file = "t", .instance = true, .instance_id = "i"}, security).ok());
  security.tls.certificate = "cert.pem";
  EXPECT_THAT(std::string(CheckEnrolment({.token_file = "t"}, security).message()), HasSubstr("--tls-cert"));
  security.tls.certificate.clear();
  security.insecure = true;
  EXPECT_FALSE(CheckEnrolment({.token_file = "t"}, security).ok());
}

}  // namespace
}  // namespace adaptdl::worker
