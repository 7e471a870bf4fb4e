// What the node authority may sign, by OpenSSL's own verification, and which requests it signs at all.

#include "libs/certificates/node_authority.h"

#include <openssl/rsa.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/certificates/certificate_request.h"
#include "libs/certificates/certificates.h"

namespace adaptdl::certificates {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kOneDay = absl::Hours(24);

class NodeAuthorityTest : public testing::Test {
 protected:
  NodeAuthorityTest() {
    std::string pattern = testing::TempDir() + "/adaptdl-node-authority-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    EXPECT_THAT(Actions(), ElementsAre(Action::kMade, Action::kMade));
    ca_ = CertificateFromPem(Read("ca.pem")).value();
    authority_ = CertificateFromPem(Read("node-authority/cert.pem")).value();
    key_ = KeyFromPem(Read("node-authority/key.pem")).value();
  }
  ~NodeAuthorityTest() override { std::filesystem::remove_all(folder_); }

  std::vector<Action> Actions(bool only_look = false) {
    std::vector<Action> actions;
    const auto certificates = MakeCertificates({.folder = folder_,
                                                .identities = {},
                                                .node_authority = true,
                                                .lifetime = 365 * kOneDay,
                                                .now = now_,
                                                .only_look = only_look});
    EXPECT_TRUE(certificates.ok()) << certificates.status();
    for (const Certificate& certificate : *certificates) actions.push_back(certificate.action);
    return actions;
  }
  std::string Read(const std::string& file) { return ReadWholeFile(folder_ + "/" + file).value(); }
  NodeAuthority Open() {
    return NodeAuthority::FromFiles(folder_ + "/node-authority/cert.pem", folder_ + "/node-authority/key.pem")
        .value();
  }

  // What whoever has stolen the authority's key might sign with it.
  CertificatePtr Forge(const std::string& dns_name, const std::string& uri, Kind kind = Kind::kService,
                       const std::string& common_name = "x") {
    return MakeCertificate({.common_name = common_name,
                            .dns_name = dns_name,
                            .uri = uri,
                            .not_before = now_ - kOneDay / 24,
                            .not_after = now_ + kOneDay,
                            .kind = kind},
                           MakeKey()->get(), authority_.get(), key_.get())
        .value();
  }

  // OpenSSL's verdict, with `between` at hand.
  int Verify(X509* certificate, std::vector<X509*> between) {
    X509_STORE* store = X509_STORE_new();
    X509_STORE_add_cert(store, ca_.get());
    STACK_OF(X509)* chain = sk_X509_new_null();
    for (X509* one : between) sk_X509_push(chain, one);
    X509_STORE_CTX* context = X509_STORE_CTX_new();
    X509_STORE_CTX_init(context, store, certificate, chain);
    X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context), absl::ToTimeT(now_));
    X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(context), X509_V_FLAG_X509_STRICT);
    X509_verify_cert(context);
    const int verdict = X509_STORE_CTX_get_error(context);
    X509_STORE_CTX_free(context);
    sk_X509_free(chain);
    X509_STORE_free(store);
    return verdict;
  }

  std::string folder_;
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  CertificatePtr ca_;
  CertificatePtr authority_;
  KeyPtr key_;
};

TEST_F(NodeAuthorityTest, SignsCertificatesOfWorkersThatChainToTheClusters) {
  const KeyPtr key = MakeKey().value();
  const std::string pem = Open().Issue(key.get(), "node-7", now_, 30 * kOneDay).value();
  const auto chain = CertificatesFromPem(pem, 2).value();
  ASSERT_EQ(chain.size(), 2);
  X509* own = chain[0].get();
  EXPECT_EQ(Verify(own, {chain[1].get()}), X509_V_OK);
  EXPECT_THAT(Names(own), ElementsAre("worker.adaptdl", "spiffe://adaptdl/worker/node-7"));
  EXPECT_TRUE(IssuedByNodeAuthority(own));
  EXPECT_FALSE(IssuedByNodeAuthority(authority_.get()));
  EXPECT_EQ(NotAfter(own), now_ + 30 * kOneDay);
  EXPECT_EQ(X509_check_private_key(own, key.get()), 1);
}

TEST_F(NodeAuthorityTest, NothingOutlivesIt) {
  const KeyPtr key = MakeKey().value();
  const std::string pem = Open().Issue(key.get(), "node-7", now_ + 350 * kOneDay, 30 * kOneDay).value();
  EXPECT_EQ(NotAfter(CertificateFromPem(pem)->get()), NotAfter(authority_.get()));
  EXPECT_EQ(Open().Issue(key.get(), "node-7", now_ + 366 * kOneDay, kOneDay).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(Open().Issue(key.get(), "", now_, kOneDay).ok());
  EXPECT_FALSE(Open().Issue(key.get(), "a/b", now_, kOneDay).ok());
}

// Clients know servers by their DNS names.
TEST_F(NodeAuthorityTest, AStolenOnePassesForNoServerButAWorker) {
  const std::string uri = "spiffe://adaptdl/supervisor";
  EXPECT_EQ(Verify(Forge("worker.adaptdl", uri).get(), {authority_.get()}), X509_V_OK)
      << "the path of a URI is for the guard to check";
  for (const char* name :
       {"supervisor.adaptdl", "*.adaptdl", "allocator.adaptdl", "adaptdl", "example.com"}) {
    EXPECT_EQ(Verify(Forge(name, uri).get(), {authority_.get()}), X509_V_ERR_PERMITTED_VIOLATION) << name;
  }
  EXPECT_EQ(Verify(Forge("worker.adaptdl", "spiffe://other/worker/x").get(), {authority_.get()}),
            X509_V_ERR_PERMITTED_VIOLATION);
}

TEST_F(NodeAuthorityTest, AStolenOneMakesNoFurtherAuthority) {
  const KeyPtr key = MakeKey().value();
  const CertificatePtr below = MakeCertificate({.common_name = "below",
                                                .dns_name = "worker.adaptdl",
                                                .uri = "",
                                                .not_before = now_ - kOneDay / 24,
                                                .not_after = now_ + kOneDay,
                                                .kind = Kind::kNodeAuthority},
                                               key.get(), authority_.get(), key_.get())
                                   .value();
  const CertificatePtr leaf = MakeCertificate({.common_name = "x",
                                               .dns_name = "worker.adaptdl",
                                               .uri = "spiffe://adaptdl/supervisor",
                                               .not_before = now_ - kOneDay / 24,
                                               .not_after = now_ + kOneDay},
                                              MakeKey()->get(), below.get(), key.get())
                                  .value();
  EXPECT_EQ(Verify(leaf.get(), {below.get(), authority_.get()}), X509_V_ERR_PATH_LENGTH_EXCEEDED);
}

TEST_F(NodeAuthorityTest, IsKeptUntilItIsDue) {
  EXPECT_THAT(Actions(), ElementsAre(Action::kKept, Action::kKept));
  now_ += 300 * kOneDay;
  EXPECT_THAT(Actions(/*only_look=*/true), ElementsAre(Action::kKept, Action::kDue));
  EXPECT_THAT(Actions(), ElementsAre(Action::kKept, Action::kRenewed));
}

// As versions before this made it: no authority may stand below it.
TEST_F(NodeAuthorityTest, AnAuthorityThatIsTooNarrowIsMadeAnewWithItsKey) {
  const std::string former = folder_ + "/former";
  std::filesystem::create_directories(former);
  // Says of itself what a node authority does: CA:TRUE, pathlen:0.
  const KeyPtr key = MakeKey().value();
  const CertificatePtr narrow = MakeCertificate({.common_name = "AdaptDL cluster authority",
                                                 .dns_name = "x",
                                                 .uri = "",
                                                 .not_before = now_ - kOneDay,
                                                 .not_after = now_ + 1000 * kOneDay,
                                                 .kind = Kind::kNodeAuthority},
                                                key.get(), nullptr, nullptr)
                                    .value();
  ASSERT_EQ(PathLength(narrow.get()), 0);
  ASSERT_TRUE(WriteFileAtomically(former + "/ca.pem", ToPem(narrow.get())).ok());
  ASSERT_TRUE(WriteFileAtomically(former + "/ca.key", ToPem(key.get())).ok());
  folder_ += "/former";
  EXPECT_THAT(Actions(/*only_look=*/true), ElementsAre(Action::kDue, Action::kMissing));
  EXPECT_THAT(Actions(), ElementsAre(Action::kRenewed, Action::kMade));
  const CertificatePtr wide = CertificateFromPem(Read("ca.pem")).value();
  EXPECT_EQ(PathLength(wide.get()), 1);
  EXPECT_EQ(X509_check_private_key(wide.get(), key.get()), 1);
  EXPECT_EQ(NotAfter(wide.get()), NotAfter(narrow.get()));
  EXPECT_THAT(Actions(), ElementsAre(Action::kKept, Action::kKept));
  folder_ = std::filesystem::path(folder_).parent_path();
}

TEST_F(NodeAuthorityTest, IsTakenForNoOtherCertificate) {
  EXPECT_FALSE(NodeAuthority::FromPem(Read("ca.pem"), Read("ca.key")).ok());
  EXPECT_FALSE(NodeAuthority::FromPem(Read("node-authority/cert.pem"), Read("ca.key")).ok());
  EXPECT_FALSE(NodeAuthority::FromPem("", "").ok());
}

KeyPtr Generate(const char* kind, unsigned bits_or_zero, const char* curve = nullptr) {
  if (curve != nullptr) return KeyPtr(EVP_PKEY_Q_keygen(nullptr, nullptr, kind, curve));
  if (bits_or_zero == 0) return KeyPtr(EVP_PKEY_Q_keygen(nullptr, nullptr, kind));
  return KeyPtr(EVP_PKEY_Q_keygen(nullptr, nullptr, kind, static_cast<size_t>(bits_or_zero)));
}

TEST(CertificateRequestTest, TellsTheKey) {
  for (const KeyPtr& key : {MakeKey().value(), Generate("RSA", 2048), Generate("EC", 0, "P-384")}) {
    const std::string request = MakeRequest(key.get()).value();
    const auto found = KeyOfRequest("\n" + request);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(KeyFingerprint(found->get()).value(), KeyFingerprint(key.get()).value());
  }
}

TEST(CertificateRequestTest, RefusesWeakKeys) {
  EXPECT_THAT(KeyOfRequest(*MakeRequest(Generate("RSA", 1024).get())).status().message(), HasSubstr("2048"));
  EXPECT_THAT(KeyOfRequest(*MakeRequest(Generate("RSA", 4608).get())).status().message(), HasSubstr("4096"));
  EXPECT_THAT(KeyOfRequest(*MakeRequest(Generate("EC", 0, "P-224").get())).status().message(),
              HasSubstr("P-256"));
  EXPECT_THAT(KeyOfRequest(*MakeRequest(Generate("EC", 0, "P-521").get())).status().message(),
              HasSubstr("P-256"));
}

TEST(CertificateRequestTest, RefusesWhatItsMakerHasNotSigned) {
  const std::string mine = MakeRequest(MakeKey()->get()).value();
  // The signature is at the end.
  for (const size_t back : {60u, 70u, 80u}) {
    std::string changed = mine;
    char& letter = changed[changed.size() - back];
    letter = letter == 'A' ? 'B' : 'A';
    EXPECT_FALSE(KeyOfRequest(changed).ok()) << back;
  }
}

TEST(CertificateRequestTest, RefusesWhatIsNoRequest) {
  const std::string request = MakeRequest(MakeKey()->get()).value();
  const KeyPtr key = MakeKey().value();
  const std::vector<std::string> hostile = {
      "",
      "x",
      std::string(kMaxRequestBytes + 1, 'x'),
      request + request,
      "text before\n" + request,
      request.substr(0, request.size() / 2),
      ToPem(key.get()),
      std::string("\0\0", 2),
      "-----BEGIN CERTIFICATE REQUEST-----",
      "-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n",
      "-----BEGIN CERTIFICATE REQUEST-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMIIB\n"
      "-----END CERTIFICATE REQUEST-----\n"};
  for (const std::string& text : hostile) {
    EXPECT_EQ(KeyOfRequest(text).status().code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 60);
  }
}

}  // namespace
}  // namespace adaptdl::certificates
