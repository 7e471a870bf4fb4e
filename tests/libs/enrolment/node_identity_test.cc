// A machine's files, over enrolment and renewal, with an authority in the place of the supervisor.

#include "libs/enrolment/node_identity.h"

#include <openssl/x509.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/certificates/certificate_request.h"
#include "libs/certificates/certificates.h"
#include "libs/certificates/node_authority.h"

namespace adaptdl::enrolment {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kDay = absl::Hours(24);

class NodeIdentityTest : public testing::Test {
 protected:
  NodeIdentityTest() {
    std::string pattern = testing::TempDir() + "/adaptdl-identity-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    EXPECT_TRUE(certificates::MakeCertificates({.folder = folder_ + "/authority",
                                                .identities = {},
                                                .node_authority = true,
                                                .lifetime = 365 * kDay,
                                                .now = now_})
                    .ok());
  }
  ~NodeIdentityTest() override { std::filesystem::remove_all(folder_); }

  // What a supervisor answers.
  Enrol Server(std::string as = "") {
    return [this, as](const v1::EnrolRequest& request) -> absl::StatusOr<v1::EnrolResponse> {
      requests_.push_back(request);
      const auto key = certificates::KeyOfRequest(request.certificate_request());
      if (!key.ok()) return key.status();
      const std::string authority = folder_ + "/authority/node-authority";
      v1::EnrolResponse response;
      response.set_certificate(
          certificates::NodeAuthority::FromFiles(authority + "/cert.pem", authority + "/key.pem")
              ->Issue(key->get(), as.empty() ? request.node_id() : as, now_, 30 * kDay)
              .value());
      return response;
    };
  }
  static Enrol Away() {
    return [](const v1::EnrolRequest&) { return absl::UnavailableError("away"); };
  }
  std::string identity() const { return folder_ + "/identity"; }
  std::string Read(const std::string& file) const {
    return ReadWholeFile(identity() + "/" + file).value_or("");
  }

  const Proof proof_ = {.join_token = "secret", .instance_id = ""};
  std::string folder_;
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  std::vector<v1::EnrolRequest> requests_;
};

TEST_F(NodeIdentityTest, EnrolsWithAKeyThatStaysHere) {
  EXPECT_TRUE(absl::IsNotFound(ReadIdentity(identity(), "n").status()));
  ASSERT_TRUE(EnrolOnce(identity(), "n", proof_, Server()).ok());
  EXPECT_EQ(requests_.back().join_token(), "secret");
  const auto validity = ReadIdentity(identity(), "n");
  ASSERT_TRUE(validity.ok()) << validity.status();
  EXPECT_EQ(validity->not_after, now_ + 30 * kDay);
  EXPECT_EQ(RenewalTime(*validity), now_ + 20 * kDay);
  struct stat status {};
  ASSERT_EQ(stat(KeyFile(identity()).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  ASSERT_EQ(stat(identity().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
}

TEST_F(NodeIdentityTest, AsksAgainWithTheSameKey) {
  EXPECT_TRUE(absl::IsUnavailable(EnrolOnce(identity(), "n", proof_, Away())));
  const std::string key = Read("key.pem");
  EXPECT_NE(key, "");
  ASSERT_TRUE(EnrolOnce(identity(), "n", proof_, Server()).ok());
  EXPECT_EQ(Read("key.pem"), key);
}

TEST_F(NodeIdentityTest, TakesNoCertificateOfSomebodyElse) {
  EXPECT_THAT(std::string(EnrolOnce(identity(), "n", proof_, Server("other")).message()),
              HasSubstr("somebody else"));
  const Enrol other_key = [this](const v1::EnrolRequest& request) {
    v1::EnrolRequest changed = request;
    changed.set_certificate_request(certificates::MakeRequest(certificates::MakeKey()->get()).value());
    return Server()(changed);
  };
  EXPECT_FALSE(EnrolOnce(identity(), "n", proof_, other_key).ok());
  EXPECT_FALSE(std::filesystem::exists(CertificateFile(identity())));
}

TEST_F(NodeIdentityTest, IsOfOneNode) {
  ASSERT_TRUE(EnrolOnce(identity(), "n", proof_, Server()).ok());
  EXPECT_THAT(std::string(ReadIdentity(identity(), "m").status().message()), HasSubstr("join again"));
}

TEST_F(NodeIdentityTest, RenewsWithANewKey) {
  ASSERT_TRUE(EnrolOnce(identity(), "n", proof_, Server()).ok());
  const std::string former = Read("key.pem");
  now_ += 20 * kDay;
  EXPECT_FALSE(RenewOnce(identity(), "n", Away()).ok());
  EXPECT_EQ(Read("key.pem"), former);
  ASSERT_TRUE(RenewOnce(identity(), "n", Server()).ok());
  EXPECT_TRUE(requests_.back().renewal());
  EXPECT_NE(Read("key.pem"), former);
  EXPECT_EQ(ReadIdentity(identity(), "n")->not_after, now_ + 30 * kDay);
  EXPECT_EQ(Read("next.key") + Read("next.pem"), "");
}

// Between the key and the certificate.
TEST_F(NodeIdentityTest, CompletesARenewalThatWasCutShort) {
  ASSERT_TRUE(EnrolOnce(identity(), "n", proof_, Server()).ok());
  const std::string former = Read("cert.pem");
  now_ += 20 * kDay;
  ASSERT_TRUE(RenewOnce(identity(), "n", Server()).ok());
  ASSERT_TRUE(WriteFileAtomically(identity() + "/next.key", Read("key.pem"), 0600).ok());
  ASSERT_TRUE(WriteFileAtomically(identity() + "/next.pem", Read("cert.pem")).ok());
  ASSERT_TRUE(WriteFileAtomically(identity() + "/cert.pem", former).ok());
  EXPECT_FALSE(ReadIdentity(identity(), "n").ok());
  ASSERT_TRUE(FinishRenewal(identity()).ok());
  EXPECT_EQ(ReadIdentity(identity(), "n")->not_after, now_ + 30 * kDay);
  EXPECT_EQ(Read("next.key") + Read("next.pem"), "");
  EXPECT_TRUE(FinishRenewal(identity()).ok());
}

}  // namespace
}  // namespace adaptdl::enrolment
