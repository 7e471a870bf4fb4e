// The certificates as others see them: by OpenSSL's own verification, not by the code that made them.

#include "libs/certificates/certificates.h"

#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/certificates/openssl.h"

namespace adaptdl::certificates {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kDay = absl::Hours(24);

class CertificatesTest : public testing::Test {
 protected:
  CertificatesTest() {
    std::string pattern = testing::TempDir() + "/adaptdl-certificates-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    now_ = absl::FromUnixSeconds(1'800'000'000);
  }
  ~CertificatesTest() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<std::vector<Certificate>> Make(std::vector<Identity> identities, bool only_look = false) {
    return MakeCertificates({.folder = folder_,
                             .identities = std::move(identities),
                             .lifetime = 90 * kDay,
                             .now = now_,
                             .only_look = only_look});
  }

  // What became of the certificates, the authority's first.
  std::vector<Action> Actions(std::vector<Identity> identities, bool only_look = false) {
    std::vector<Action> actions;
    const std::vector<Certificate> certificates = Make(std::move(identities), only_look).value();
    for (const Certificate& certificate : certificates) actions.push_back(certificate.action);
    return actions;
  }

  std::string Read(const std::string& file) { return ReadWholeFile(folder_ + "/" + file).value(); }
  CertificatePtr ReadCertificate(const std::string& file) { return CertificateFromPem(Read(file)).value(); }
  mode_t ModeOf(const std::string& file) {
    struct stat status {};
    EXPECT_EQ(stat((folder_ + "/" + file).c_str(), &status), 0);
    return status.st_mode & 07777;
  }

  // OpenSSL's verdict on the certificate for this purpose at `time`: X509_V_OK or the error.
  int Verify(const std::string& file, int purpose, absl::Time time) {
    X509_STORE* store = X509_STORE_new();
    const CertificatePtr ca = ReadCertificate("ca.pem");
    X509_STORE_add_cert(store, ca.get());
    X509_STORE_CTX* context = X509_STORE_CTX_new();
    const CertificatePtr certificate = ReadCertificate(file);
    X509_STORE_CTX_init(context, store, certificate.get(), nullptr);
    X509_VERIFY_PARAM* parameters = X509_STORE_CTX_get0_param(context);
    X509_VERIFY_PARAM_set_time(parameters, absl::ToTimeT(time));
    X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_X509_STRICT);
    X509_VERIFY_PARAM_set_purpose(parameters, purpose);
    X509_verify_cert(context);
    const int verdict = X509_STORE_CTX_get_error(context);
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    return verdict;
  }

  std::string folder_;
  absl::Time now_;
};

TEST_F(CertificatesTest, ChainsToTheAuthorityForServersAndClients) {
  EXPECT_THAT(Actions(AllServices()),
              ElementsAre(Action::kMade, Action::kMade, Action::kMade, Action::kMade, Action::kMade));
  for (const char* service : kServices) {
    const std::string file = std::string(service) + "/cert.pem";
    EXPECT_EQ(Verify(file, X509_PURPOSE_SSL_SERVER, now_), X509_V_OK) << service;
    EXPECT_EQ(Verify(file, X509_PURPOSE_SSL_CLIENT, now_), X509_V_OK) << service;
    EXPECT_EQ(Verify(file, X509_PURPOSE_SSL_CLIENT, now_ + 91 * kDay), X509_V_ERR_CERT_HAS_EXPIRED);
    EXPECT_EQ(X509_check_ca(ReadCertificate(file).get()), 0) << "it could issue others";
  }
}

TEST_F(CertificatesTest, NamesTheServiceOrTheNode) {
  ASSERT_TRUE(Make({{.service = "supervisor"}, {.service = "worker", .node_id = "rack-1.node_2"}}).ok());
  const CertificatePtr supervisor = ReadCertificate("supervisor/cert.pem");
  EXPECT_THAT(Names(supervisor.get()), ElementsAre("supervisor.adaptdl", "spiffe://adaptdl/supervisor"));
  EXPECT_EQ(X509_check_host(supervisor.get(), "supervisor.adaptdl", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(supervisor.get(), "worker.adaptdl", 0, 0, nullptr), 0);
  EXPECT_THAT(Names(ReadCertificate("worker-rack-1.node_2/cert.pem").get()),
              ElementsAre("worker.adaptdl", "spiffe://adaptdl/worker/rack-1.node_2"));
}

TEST_F(CertificatesTest, NamesAWebhookAsItsCallersDo) {
  const Identity webhook = {.service = kWebhook, .dns_name = "hook.team-a.svc"};
  ASSERT_TRUE(Make({webhook}).ok());
  const CertificatePtr made = ReadCertificate("webhook/cert.pem");
  EXPECT_THAT(Names(made.get()), ElementsAre("hook.team-a.svc", "spiffe://adaptdl/webhook"));
  EXPECT_EQ(Verify("webhook/cert.pem", X509_PURPOSE_SSL_SERVER, now_), X509_V_OK);
  EXPECT_THAT(Actions({webhook}), ElementsAre(Action::kKept, Action::kKept));
  EXPECT_THAT(Actions({{.service = kWebhook, .dns_name = "hook.team-b.svc"}}),
              ElementsAre(Action::kKept, Action::kRenewed));
  EXPECT_THAT(Make({{.service = kWebhook, .dns_name = "a,b"}}).status().ToString(), HasSubstr("no DNS name"));
  EXPECT_FALSE(Make({{.service = kWebhook}}).ok());
  EXPECT_FALSE(Make({{.service = "supervisor", .dns_name = "hook"}}).ok());
}

TEST_F(CertificatesTest, KeepsKeysFromOthers) {
  ASSERT_TRUE(Make({{.service = "worker"}}).ok());
  EXPECT_EQ(ModeOf("ca.key"), 0600u);
  EXPECT_EQ(ModeOf("worker/key.pem"), 0600u);
  EXPECT_EQ(ModeOf("ca.pem"), 0644u);
  EXPECT_EQ(Read("worker/ca.pem"), Read("ca.pem"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/worker/ca.key"));
}

TEST_F(CertificatesTest, RenewsWhatNearsItsEndAndKeepsTheRest) {
  ASSERT_TRUE(Make({{.service = "worker"}}).ok());
  const std::string ca = Read("ca.pem");
  const std::string certificate = Read("worker/cert.pem");
  const std::string key = Read("worker/key.pem");
  now_ += 59 * kDay;
  EXPECT_THAT(Actions({{.service = "worker"}}), ElementsAre(Action::kKept, Action::kKept));
  EXPECT_EQ(Read("worker/cert.pem"), certificate);
  now_ += 2 * kDay;
  EXPECT_THAT(Actions({{.service = "worker"}}, /*only_look=*/true), ElementsAre(Action::kKept, Action::kDue));
  EXPECT_EQ(Read("worker/cert.pem"), certificate);
  EXPECT_THAT(Actions({{.service = "worker"}}), ElementsAre(Action::kKept, Action::kRenewed));
  EXPECT_EQ(Read("ca.pem"), ca);
  EXPECT_NE(Read("worker/cert.pem"), certificate);
  EXPECT_NE(Read("worker/key.pem"), key);
  EXPECT_EQ(Verify("worker/cert.pem", X509_PURPOSE_SSL_SERVER, now_ + 89 * kDay), X509_V_OK);
}

TEST_F(CertificatesTest, RenewsWhatIsDamagedOrOfAnotherAuthority) {
  ASSERT_TRUE(Make({{.service = "worker"}, {.service = "allocator"}}).ok());
  std::ofstream(folder_ + "/worker/cert.pem") << "half a certif";
  // One for another service, with its key.
  for (const char* file : {"cert.pem", "key.pem"}) {
    std::filesystem::copy_file(folder_ + "/allocator/" + file, folder_ + "/supervisor-" + file);
  }
  EXPECT_THAT(Actions({{.service = "worker"}}), ElementsAre(Action::kKept, Action::kRenewed));
  std::filesystem::create_directory(folder_ + "/supervisor");
  for (const char* file : {"cert.pem", "key.pem"}) {
    std::filesystem::rename(folder_ + "/supervisor-" + file, folder_ + "/supervisor/" + file);
  }
  EXPECT_THAT(Actions({{.service = "supervisor"}}), ElementsAre(Action::kKept, Action::kRenewed));
  std::filesystem::remove(folder_ + "/ca.pem");
  std::filesystem::remove(folder_ + "/ca.key");
  EXPECT_THAT(Actions({{.service = "worker"}}), ElementsAre(Action::kMade, Action::kRenewed));
  EXPECT_EQ(Verify("worker/cert.pem", X509_PURPOSE_SSL_SERVER, now_), X509_V_OK);
}

TEST_F(CertificatesTest, OnlyLooksWhenAskedTo) {
  EXPECT_THAT(Actions({{.service = "worker"}}, /*only_look=*/true),
              ElementsAre(Action::kMissing, Action::kMissing));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  ASSERT_TRUE(Make({{.service = "worker"}}).ok());
  EXPECT_THAT(Actions({{.service = "worker"}, {.service = "allocator"}}, /*only_look=*/true),
              ElementsAre(Action::kKept, Action::kKept, Action::kMissing));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/allocator"));
}

TEST_F(CertificatesTest, NoCertificateOutlivesTheAuthority) {
  ASSERT_TRUE(Make({{.service = "worker"}}).ok());
  const absl::Time end = NotAfter(ReadCertificate("ca.pem").get());
  now_ = end - 30 * kDay;
  ASSERT_TRUE(Make({{.service = "worker"}}).ok());
  EXPECT_EQ(NotAfter(ReadCertificate("worker/cert.pem").get()), end);
  EXPECT_THAT(Actions({}, /*only_look=*/true), ElementsAre(Action::kDue));
  now_ = end;
  const absl::Status status = Make({{.service = "worker"}}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("it has ended"));
}

TEST_F(CertificatesTest, HandsOutASecondAuthorityThatIsTrustedMeanwhile) {
  ASSERT_TRUE(Make({{.service = "worker"}}).ok());
  std::ofstream(folder_ + "/ca.pem", std::ios::app) << Read("ca.pem");
  EXPECT_THAT(Actions({{.service = "worker"}}), ElementsAre(Action::kKept, Action::kKept));
  EXPECT_EQ(Read("worker/ca.pem"), Read("ca.pem"));
}

TEST_F(CertificatesTest, NeverReplacesHalfAnAuthority) {
  ASSERT_TRUE(Make({}).ok());
  std::filesystem::rename(folder_ + "/ca.key", folder_ + "/away");
  EXPECT_TRUE(absl::IsFailedPrecondition(Make({}).status()));
  std::filesystem::rename(folder_ + "/away", folder_ + "/ca.key");
  std::filesystem::remove(folder_ + "/ca.pem");
  EXPECT_TRUE(absl::IsFailedPrecondition(Make({}).status()));
}

TEST_F(CertificatesTest, RefusesNamesThatAreNone) {
  for (const Identity& identity :
       {Identity{.service = "scheduler"}, Identity{.service = "worker", .node_id = "../x"},
        Identity{.service = "worker", .node_id = "a,URI:spiffe://adaptdl/supervisor"},
        Identity{.service = "supervisor", .node_id = "a"}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Make({identity}).status())) << identity.service << identity.node_id;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace adaptdl::certificates
