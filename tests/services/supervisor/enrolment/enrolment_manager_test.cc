// Who is let in as a node, and who is not; on a memory store, and a clock that stands still.

#include "services/supervisor/enrolment/enrolment_manager.h"

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/random_id.h"
#include "libs/certificates/certificate_request.h"
#include "libs/certificates/certificates.h"
#include "libs/certificates/openssl.h"
#include "libs/enrolment/join_token.h"
#include "libs/messages/proto_time.h"
#include "services/supervisor/enrolment/peer_address.h"
#include "tests/services/supervisor/managers_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class FakeVouchedNodes final : public VouchedNodes {
 public:
  std::optional<Vouched> Find(const std::string& instance_id) const override {
    const auto found = nodes.find(instance_id);
    return found == nodes.end() ? std::nullopt : std::optional(found->second);
  }
  std::map<std::string, Vouched> nodes;
};

class EnrolmentManagerTest : public ManagersTest {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/adaptdl-enrolment-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    ASSERT_TRUE(certificates::MakeCertificates({.folder = folder_,
                                                .identities = {},
                                                .node_authority = true,
                                                .lifetime = absl::Hours(24 * 365),
                                                .now = clock_.Now()})
                    .ok());
    Lead();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A supervisor begins to lead, on what is in the store.
  void Lead() {
    Start();
    const std::string authority = folder_ + "/node-authority/";
    const EnrolmentOptions options{authority + "cert.pem", authority + "key.pem", folder_ + "/ca.pem",
                                   absl::Hours(24 * 30)};
    ASSERT_TRUE(CheckEnrolment(options).ok());
    manager_ = std::make_unique<EnrolmentManager>(options, cluster_->core(), &vouched_,
                                                  [](int bytes) { return RandomHex(bytes); });
  }

  static std::string Request() { return certificates::MakeRequest(certificates::MakeKey()->get()).value(); }

  absl::StatusOr<v1::CreateJoinTokenResponse> Create(const std::string& node_id = "",
                                                     absl::Duration lifetime = absl::ZeroDuration(),
                                                     const std::string& request_id = "") {
    v1::CreateJoinTokenRequest request;
    request.set_request_id(request_id.empty() ? NextRequest() : request_id);
    request.set_node_id(node_id);
    if (lifetime != absl::ZeroDuration()) *request.mutable_lifetime() = messages::ToProto(lifetime);
    return manager_->CreateJoinToken(request, "token/admin");
  }
  std::string Token(const std::string& node_id = "", absl::Duration lifetime = absl::ZeroDuration()) {
    const auto created = Create(node_id, lifetime);
    EXPECT_TRUE(created.ok()) << created.status();
    return created.ok() ? created->token() : "";
  }

  absl::StatusOr<v1::EnrolResponse> ByToken(const std::string& node_id, const std::string& token,
                                            const std::string& certificate_request = Request()) {
    v1::EnrolRequest request;
    request.set_node_id(node_id);
    request.set_certificate_request(certificate_request);
    request.set_join_token(token);
    return manager_->Enrol(request, {.address = "10.0.0.9", .certified_node = ""});
  }
  absl::StatusOr<v1::EnrolResponse> ByInstance(const std::string& node_id, const std::string& address,
                                               const std::string& certificate_request = Request()) {
    v1::EnrolRequest request;
    request.set_node_id(node_id);
    request.set_certificate_request(certificate_request);
    request.set_instance_id("i-1");
    return manager_->Enrol(request, {.address = address, .certified_node = ""});
  }
  static absl::StatusCode CodeOf(const absl::StatusOr<v1::EnrolResponse>& response) {
    return response.status().code();
  }

  static constexpr absl::StatusCode kDenied = absl::StatusCode::kPermissionDenied;
  std::string folder_;
  FakeVouchedNodes vouched_;
  std::unique_ptr<EnrolmentManager> manager_;
};

TEST_F(EnrolmentManagerTest, ATokenLetsANodeIn) {
  const std::string token = Token();
  const auto response = ByToken("a", token);
  ASSERT_TRUE(response.ok()) << response.status();
  const auto certificate = certificates::CertificateFromPem(response->certificate()).value();
  EXPECT_THAT(certificates::Names(certificate.get()),
              ElementsAre("worker.adaptdl", "spiffe://adaptdl/worker/a"));
  EXPECT_EQ(certificates::NotAfter(certificate.get()),
            absl::FromUnixSeconds(absl::ToUnixSeconds(clock_.Now() + absl::Hours(24 * 30))));
  EXPECT_THAT(response->authority(), HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_EQ(enrolment::ParseJoinToken(token)->authority, response->authority());
}

TEST_F(EnrolmentManagerTest, OnceAlsoAtTheNextSupervisor) {
  const std::string token = Token();
  const std::string used = Token();
  ASSERT_TRUE(ByToken("b", used).ok());
  Lead();
  EXPECT_EQ(CodeOf(ByToken("c", used)), kDenied);
  ASSERT_TRUE(ByToken("a", token).ok());
  EXPECT_EQ(CodeOf(ByToken("a", token)), kDenied);
  Lead();
  EXPECT_EQ(CodeOf(ByToken("a2", token)), kDenied);
}

TEST_F(EnrolmentManagerTest, ALostAnswerIsNoLostToken) {
  const std::string token = Token();
  const std::string request = Request();
  ASSERT_TRUE(ByToken("a", token, request).ok());
  // Meanwhile the node has registered, after all.
  ASSERT_TRUE(AddNode("a").ok());
  EXPECT_TRUE(ByToken("a", token, request).ok());
  EXPECT_EQ(CodeOf(ByToken("b", token, request)), kDenied);
}

TEST_F(EnrolmentManagerTest, OfManyAtOnceItLetsOneIn) {
  const std::string token = Token();
  std::atomic<int> let_in = 0;
  std::atomic<int> denied = 0;
  std::vector<std::thread> machines;
  for (int i = 0; i < 16; ++i) {
    machines.emplace_back([&, i] {
      const auto response = ByToken(absl::StrCat("node-", i), token);
      let_in += response.ok() ? 1 : 0;
      denied += CodeOf(response) == kDenied ? 1 : 0;
    });
  }
  for (std::thread& machine : machines) machine.join();
  EXPECT_EQ(let_in, 1);
  EXPECT_EQ(denied, 15);
}

TEST_F(EnrolmentManagerTest, ATokenExpires) {
  const std::string token = Token();
  clock_.Advance(absl::Hours(1) - absl::Seconds(1));
  const std::string late = Token("", absl::Hours(2));
  ASSERT_TRUE(ByToken("a", token).ok());
  const std::string unused = Token();
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(CodeOf(ByToken("b", unused)), kDenied);
  EXPECT_TRUE(ByToken("b", late).ok());
}

TEST_F(EnrolmentManagerTest, ATokenOfOneNodeIsOfNoOther) {
  const std::string token = Token("a");
  EXPECT_EQ(CodeOf(ByToken("b", token)), kDenied);
  EXPECT_TRUE(ByToken("a", token).ok());
}

TEST_F(EnrolmentManagerTest, NobodyTakesOverANodeThatIsAlive) {
  ASSERT_TRUE(AddNode("a").ok());
  const std::string token = Token("a");
  EXPECT_EQ(CodeOf(ByToken("a", token)), absl::StatusCode::kFailedPrecondition);
  // It was not used up by that. A lost node may come back as another machine.
  Advance(absl::Minutes(1));
  EXPECT_TRUE(ByToken("a", token).ok());
}

TEST_F(EnrolmentManagerTest, NobodyTakesTheNameOfOneThatIsAboutToRegister) {
  ASSERT_TRUE(ByToken("a", Token()).ok());
  const std::string token = Token();
  EXPECT_EQ(CodeOf(ByToken("a", token)), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(ByToken("b", token).ok());
  EXPECT_TRUE(ByToken("a", Token("a")).ok()) << "whoever has made that one wants it so";
}

TEST_F(EnrolmentManagerTest, OneTextForAllThatIsWrongWithAToken) {
  const std::string used = Token();
  ASSERT_TRUE(ByToken("a", used).ok());
  std::string wrong = Token();
  wrong[20] = wrong[20] == '0' ? '1' : '0';
  const std::string expected(ByToken("b", used).status().message());
  for (const std::string& token :
       {wrong, std::string(), std::string("nonsense"), std::string(100'000, 'x'), Token("c")}) {
    EXPECT_EQ(ByToken("b", token).status().message(), expected);
  }
}

TEST_F(EnrolmentManagerTest, ARepeatedRequestHasOneToken) {
  const std::string first = Create("", absl::ZeroDuration(), "request-x")->token();
  const std::string second = Create("", absl::ZeroDuration(), "request-x")->token();
  EXPECT_EQ(CodeOf(ByToken("a", first)), kDenied);
  EXPECT_TRUE(ByToken("a", second).ok());
  EXPECT_EQ(Create("", absl::ZeroDuration(), "request-x").status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(EnrolmentManagerTest, TokensAreBounded) {
  EXPECT_FALSE(Create("", absl::Hours(24 * 7) + absl::Seconds(1)).ok());
  EXPECT_FALSE(Create("", -absl::Seconds(1)).ok());
  EXPECT_FALSE(Create("no/name").ok());
  for (size_t i = 0; i < EnrolmentManager::kMaxTokens; ++i) ASSERT_TRUE(Create().ok()) << i;
  EXPECT_EQ(Create().status().code(), absl::StatusCode::kResourceExhausted);
  clock_.Advance(absl::Hours(1));
  EXPECT_TRUE(Create().ok());
  size_t left = 0;
  cluster_->core()->Read([&](const Tables& tables) { left = tables.joins.size(); });
  EXPECT_EQ(left, 1) << "what has expired is forgotten";
}

TEST_F(EnrolmentManagerTest, TheStoreHasNoSecrets) {
  const std::string secret = enrolment::ParseJoinToken(Token())->secret;
  const auto contents = store_.Load(clock_.Now()).value();
  ASSERT_EQ(contents.joins.size(), 1);
  EXPECT_THAT(contents.joins[0].id, Not(HasSubstr(secret.substr(20))));
}

TEST_F(EnrolmentManagerTest, AVouchedMachineIsLetInFromItsAddress) {
  EXPECT_EQ(CodeOf(ByInstance("a", "10.0.0.9")), absl::StatusCode::kUnavailable);
  vouched_.nodes["i-1"] = {.node_id = "a", .pool = "p", .instance_id = "i-1", .address = ""};
  EXPECT_EQ(CodeOf(ByInstance("a", "10.0.0.9")), absl::StatusCode::kUnavailable);
  vouched_.nodes["i-1"].address = "10.0.0.9";
  EXPECT_EQ(CodeOf(ByInstance("a", "10.0.0.8")), kDenied);
  EXPECT_EQ(CodeOf(ByInstance("a", "")), kDenied);
  EXPECT_EQ(CodeOf(ByInstance("b", "10.0.0.9")), kDenied);
  EXPECT_TRUE(ByInstance("a", "10.0.0.9").ok());
}

// A job on it has the same address.
TEST_F(EnrolmentManagerTest, AVouchedMachineIsLetInOnce) {
  vouched_.nodes["i-1"] = {.node_id = "a", .pool = "p", .instance_id = "i-1", .address = "10.0.0.9"};
  const std::string request = Request();
  ASSERT_TRUE(ByInstance("a", "10.0.0.9", request).ok());
  EXPECT_TRUE(ByInstance("a", "10.0.0.9", request).ok()) << "its own key";
  EXPECT_EQ(CodeOf(ByInstance("a", "10.0.0.9")), kDenied);
  Lead();
  EXPECT_EQ(CodeOf(ByInstance("a", "10.0.0.9")), kDenied);
  EXPECT_TRUE(ByInstance("a", "10.0.0.9", request).ok());
}

TEST_F(EnrolmentManagerTest, ACertificateIsRenewedByItself) {
  v1::EnrolRequest request;
  request.set_node_id("a");
  request.set_certificate_request(Request());
  request.set_renewal(true);
  EXPECT_EQ(manager_->Enrol(request, {}).status().code(), kDenied);
  EXPECT_EQ(manager_->Enrol(request, {.address = "", .certified_node = "b"}).status().code(), kDenied);
  ASSERT_TRUE(AddNode("a").ok());
  EXPECT_TRUE(manager_->Enrol(request, {.address = "", .certified_node = "a"}).ok());
  request.set_renewal(false);
  EXPECT_EQ(manager_->Enrol(request, {.address = "", .certified_node = "a"}).status().code(), kDenied);
}

TEST_F(EnrolmentManagerTest, NothingIsUsedUpByARequestThatCanNotBeGranted) {
  const std::string token = Token();
  EXPECT_EQ(CodeOf(ByToken("a", token, "garbage")), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(ByToken("", token)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(ByToken("a b", token)), absl::StatusCode::kInvalidArgument);
  std::filesystem::rename(folder_ + "/node-authority", folder_ + "/gone");
  EXPECT_EQ(CodeOf(ByToken("a", token)), absl::StatusCode::kUnavailable);
  std::filesystem::rename(folder_ + "/gone", folder_ + "/node-authority");
  store_.FailCommits(absl::ResourceExhaustedError("the disk is full"));
  EXPECT_FALSE(ByToken("a", token).ok());
  store_.FailCommits(absl::OkStatus());
  EXPECT_TRUE(ByToken("b", token).ok());
  v1::EnrolRequest nothing;
  nothing.set_node_id("c");
  nothing.set_certificate_request(Request());
  EXPECT_EQ(manager_->Enrol(nothing, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CheckEnrolmentTest, NamesTheFlags) {
  EXPECT_TRUE(CheckEnrolment({}).ok());
  EXPECT_THAT(std::string(CheckEnrolment({.authority_certificate = "x"}).message()),
              HasSubstr("both or neither"));
  EXPECT_THAT(std::string(CheckEnrolment({.authority_certificate = "x", .authority_key = "y"}).message()),
              HasSubstr("--tls-ca"));
  EXPECT_THAT(std::string(CheckEnrolment({"/no/cert", "/no/key", "/no/ca"}).message()),
              HasSubstr("/no/cert"));
}

TEST(PeerAddressTest, IsWrittenInOneWay) {
  EXPECT_EQ(AddressOf("ipv4:10.0.0.1:41234"), "10.0.0.1");
  EXPECT_EQ(AddressOf("ipv6:%5B::1%5D:41234"), "::1");
  EXPECT_EQ(AddressOf("ipv6:[2001:DB8:0:0::1]:41234"), "2001:db8::1");
  EXPECT_EQ(AddressOf("ipv6:%5B::ffff:10.0.0.1%5D:41234"), "10.0.0.1");
  EXPECT_EQ(AddressOf("ipv6:%5Bfe80::1%25eth0%5D:41234"), "fe80::1");
  EXPECT_EQ(AddressOf("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(AddressOf("2001:db8::1"), "2001:db8::1");
  for (const char* none :
       {"", "unix:/x", "ipv4:", "ipv6:", "ipv6:]:1", "ipv4:host:1", "10.0.0", "ipv6:[x]:1"}) {
    EXPECT_EQ(AddressOf(none), "") << none;
  }
}

}  // namespace
}  // namespace adaptdl::supervisor
