#include "libs/service/security/guard.h"
#include "libs/certificates/node_authority.h"
#include "libs/certificates/openssl.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/base/manual_clock.h"
#include "libs/service/security/permissions.h"
#include "tests/libs/service/security/jwt_fixture.h"

namespace adaptdl::security {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kGetJob[] = "/adaptdl.v1.JobService/GetJob";

class GuardTest : public ::testing::Test {
 protected:
  GuardTest() {
    char folder[] = "/tmp/adaptdl-guard-XXXXXX";
    folder_ = mkdtemp(folder);
    options_.token_file = absl::StrCat(folder_, "/tokens.json");
    user_ = *CreateToken(options_.token_file, {.name = "ci", .role = Role::kUser, .namespaces = {"vision"}},
                         clock_);
    operator_ = *CreateToken(options_.token_file,
                             {.name = "pager", .role = Role::kOperator, .namespaces = {}}, clock_);
  }
  ~GuardTest() override { std::filesystem::remove_all(folder_); }

  void Start() {
    auto guard = Guard::Create(options_, &clock_);
    ASSERT_TRUE(guard.ok()) << guard.status();
    guard_ = *std::move(guard);
  }

  static Credentials Bearer(const std::string& token) { return {.bearer = token, .uris = {}}; }
  static Credentials Certificate(std::vector<std::string> uris) {
    return {.bearer = "", .uris = std::move(uris)};
  }
  static Credentials Service(const std::string& path) {
    return Certificate({absl::StrCat("spiffe://adaptdl/", path)});
  }

  ManualClock clock_;
  GuardOptions options_;
  std::string folder_, user_, operator_;
  std::unique_ptr<Guard> guard_;
};

TEST_F(GuardTest, KnowsPeopleByTheirTokens) {
  Start();
  const absl::StatusOr<Caller> caller = guard_->Identify(Bearer(user_));
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(Describe(*caller), "token \"ci\"");
  EXPECT_EQ(caller->role, Role::kUser);
  EXPECT_THAT(caller->namespaces, ElementsAre("vision"));
  EXPECT_EQ(guard_->Identify(Bearer(operator_))->role, Role::kOperator);
}

TEST_F(GuardTest, KnowsServicesByTheirCertificates) {
  Start();
  EXPECT_EQ(guard_->Identify(Service("supervisor"))->role, Role::kSupervisor);
  EXPECT_EQ(guard_->Identify(Service("allocator"))->role, Role::kAllocator);
  EXPECT_EQ(guard_->Identify(Service("autoscaler"))->role, Role::kAutoscaler);
  EXPECT_EQ(guard_->Identify(Service("worker"))->role, Role::kWorker);
  EXPECT_EQ(guard_->Identify(Service("worker"))->node_id, "");
  EXPECT_EQ(guard_->Identify(Service("worker/node-1"))->role, Role::kWorker);
  EXPECT_EQ(guard_->Identify(Service("worker/node-1"))->node_id, "node-1");
}

TEST_F(GuardTest, DoesNotKnowOtherCertificates) {
  Start();
  for (const char* path :
       {"", "admin", "user", "Supervisor", "supervisor/", "supervisor/node-1", "worker/", "workers"}) {
    EXPECT_TRUE(absl::IsUnauthenticated(guard_->Identify(Service(path)).status())) << path;
  }
  EXPECT_FALSE(guard_->Identify(Certificate({"spiffe://other/supervisor"})).ok());
  EXPECT_FALSE(guard_->Identify(Certificate({"https://adaptdl/supervisor"})).ok());
  // Which of the two would it be?
  EXPECT_FALSE(
      guard_->Identify(Certificate({"spiffe://adaptdl/worker", "spiffe://adaptdl/supervisor"})).ok());
  EXPECT_FALSE(guard_->Identify(Certificate({})).ok());
}

// By whoever has stolen its key.
TEST_F(GuardTest, WhatTheNodeAuthorityIssuesIsTheWorkerOfOneNode) {
  Start();
  const auto issued_by = [](const char* authority) {
    const auto key = certificates::MakeKey().value();
    certificates::Contents contents{.common_name = authority,
                                    .dns_name = "",
                                    .uri = "",
                                    .not_before = absl::FromUnixSeconds(1'700'000'000),
                                    .not_after = absl::FromUnixSeconds(1'900'000'000),
                                    .kind = certificates::Kind::kAuthority};
    const auto issuer = certificates::MakeCertificate(contents, key.get(), nullptr, nullptr).value();
    contents.kind = certificates::Kind::kService;
    contents.dns_name = "worker.adaptdl";
    contents.uri = "spiffe://adaptdl/supervisor";
    return certificates::ToPem(
        certificates::MakeCertificate(contents, key.get(), issuer.get(), key.get()).value().get());
  };
  const std::string ours = issued_by("AdaptDL cluster authority");
  const std::string of_nodes = issued_by(certificates::kNodeAuthorityName);
  for (const char* path : {"supervisor", "allocator", "autoscaler", "worker"}) {
    Credentials credentials = Service(path);
    credentials.certificate = ours;
    EXPECT_TRUE(guard_->Identify(credentials).ok()) << path;
    for (const std::string& certificate : {of_nodes, std::string("not a certificate")}) {
      credentials.certificate = certificate;
      EXPECT_TRUE(absl::IsUnauthenticated(guard_->Identify(credentials).status())) << path;
      EXPECT_FALSE(guard_->Authorize("/adaptdl.v1.NodeService/Connect", credentials).ok()) << path;
    }
  }
  Credentials node = Service("worker/node-1");
  node.certificate = of_nodes;
  EXPECT_EQ(guard_->Identify(node)->node_id, "node-1");
}

TEST_F(GuardTest, RefusesATokenThatIsNotValidWhateverTheCertificateSays) {
  Start();
  Credentials both = Service("supervisor");
  both.bearer = "adaptdl_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
  EXPECT_TRUE(absl::IsUnauthenticated(guard_->Identify(both).status()));
  both.bearer = user_;
  EXPECT_EQ(guard_->Identify(both)->role, Role::kUser);
}

TEST_F(GuardTest, ForgetsTokensThatAreRevokedAndLearnsNewOnesAtOnce) {
  Start();
  ASSERT_TRUE(RevokeToken(options_.token_file, "ci").ok());
  const std::string fresh =
      *CreateToken(options_.token_file, {.name = "new", .role = Role::kAdmin, .namespaces = {}}, clock_);
  EXPECT_TRUE(absl::IsUnauthenticated(guard_->Identify(Bearer(user_)).status()));
  EXPECT_EQ(guard_->Identify(Bearer(fresh))->role, Role::kAdmin);
}

TEST_F(GuardTest, KeepsWhatItKnewWhileTheFileIsInvalidOrGone) {
  Start();
  ASSERT_TRUE(WriteFileAtomically(options_.token_file, "{", 0600).ok());
  EXPECT_TRUE(guard_->Identify(Bearer(user_)).ok());
  std::filesystem::remove(options_.token_file);
  EXPECT_TRUE(guard_->Identify(Bearer(user_)).ok());
  ASSERT_TRUE(WriteFileAtomically(options_.token_file, R"({"tokens": []})", 0600).ok());
  EXPECT_FALSE(guard_->Identify(Bearer(user_)).ok());
}

TEST_F(GuardTest, LetsTokensExpire) {
  const std::string brief = *CreateToken(
      options_.token_file,
      {.name = "brief", .role = Role::kAdmin, .namespaces = {}, .lifetime = absl::Hours(1)}, clock_);
  Start();
  EXPECT_TRUE(guard_->Identify(Bearer(brief)).ok());
  clock_.Advance(absl::Hours(1));
  EXPECT_TRUE(absl::IsUnauthenticated(guard_->Identify(Bearer(brief)).status()));
}

TEST_F(GuardTest, SaysTheSameOfEveryTokenThatIsNotValid) {
  Start();
  const std::string unknown = std::string(guard_->Identify(Bearer("x")).status().message());
  ASSERT_TRUE(RevokeToken(options_.token_file, "ci").ok());
  EXPECT_EQ(guard_->Identify(Bearer(user_)).status().message(), unknown);
}

TEST_F(GuardTest, TellsApartWhoIsUnknownAndWhoMayNot) {
  Start();
  EXPECT_TRUE(guard_->Authorize(kGetJob, Bearer(user_)).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(guard_->Authorize(kGetJob, {})));
  EXPECT_TRUE(absl::IsUnauthenticated(guard_->Authorize(kGetJob, Bearer("x"))));
  const absl::Status status = guard_->Authorize("/adaptdl.v1.QuotaService/SetQuota", Bearer(user_));
  EXPECT_TRUE(absl::IsPermissionDenied(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("token \"ci\" with role user"), HasSubstr("that takes role admin")));
  EXPECT_TRUE(absl::IsPermissionDenied(guard_->Authorize(kGetJob, Service("worker"))));
}

TEST_F(GuardTest, ServesNobodyAMethodThatIsNotInTheTable) {
  Start();
  EXPECT_TRUE(absl::IsUnauthenticated(guard_->Authorize("/adaptdl.v1.JobService/New", {})));
  EXPECT_TRUE(absl::IsUnimplemented(guard_->Authorize("/adaptdl.v1.JobService/New", Bearer(user_))));
  EXPECT_TRUE(absl::IsUnauthenticated(guard_->Authorize("", {})));
}

TEST_F(GuardTest, LetsEverybodyAskForHealthAndReplicasBringTheirTokens) {
  Start();
  EXPECT_TRUE(guard_->Authorize("/grpc.health.v1.Health/Check", {}).ok());
  EXPECT_TRUE(guard_->Authorize("/grpc.health.v1.Health/Check", Bearer("x")).ok());
  EXPECT_TRUE(guard_->Authorize("/adaptdl.v1.ReplicaService/Heartbeat", Bearer("0123")).ok());
  EXPECT_TRUE(
      absl::IsUnauthenticated(guard_->Authorize("/adaptdl.v1.ReplicaService/Heartbeat", Service("worker"))));
}

TEST_F(GuardTest, KnowsTheTokensOfAnIdentityProviderUntilTheyExpireOrItsKeysChange) {
  const SigningKey key = SigningKey::P256("one");
  const SigningKey other = SigningKey::P256("two");
  options_.jwks_file = absl::StrCat(folder_, "/jwks.json");
  options_.jwt = {kIssuer, kAudience};
  ASSERT_TRUE(WriteFileAtomically(options_.jwks_file, JwkSet({key.Jwk()}).dump()).ok());
  Start();
  const nlohmann::json claims = {{"sub", "ann"},
                                 {"iss", kIssuer},
                                 {"aud", kAudience},
                                 {"exp", absl::ToUnixSeconds(clock_.Now() + absl::Hours(1))},
                                 {"adaptdl_role", "operator"}};
  const std::string token = key.Sign(claims);
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<Caller> caller = guard_->Identify(Bearer(token));
    ASSERT_TRUE(caller.ok()) << caller.status();
    EXPECT_EQ(caller->role, Role::kOperator);
  }
  EXPECT_TRUE(guard_->Identify(Bearer(user_)).ok());
  ASSERT_TRUE(WriteFileAtomically(options_.jwks_file, JwkSet({other.Jwk()}).dump()).ok());
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(guard_->Identify(Bearer(token)).ok());
  const std::string newer = other.Sign(claims);
  EXPECT_TRUE(guard_->Identify(Bearer(newer)).ok());
  clock_.Advance(absl::Hours(1) + kClockSkew);
  EXPECT_FALSE(guard_->Identify(Bearer(newer)).ok());
}

TEST_F(GuardTest, TakesEverybodyForAnAdminWhenItIsOpen) {
  const std::unique_ptr<Guard> open = Guard::Open();
  for (const Permission& permission : AllPermissions())
    EXPECT_TRUE(open->Authorize(permission.method, {}).ok());
  EXPECT_EQ(open->Identify({})->role, Role::kAdmin);
  EXPECT_TRUE(CheckNamespace(*open->Identify({}), "*").ok());
}

TEST_F(GuardTest, SaysAtTheStartWhichFileCannotBeRead) {
  options_.token_file = absl::StrCat(folder_, "/none.json");
  EXPECT_THAT(std::string(Guard::Create(options_, &clock_).status().message()), HasSubstr("none.json"));
}

TEST(CallerTest, IsLimitedToItsNamespaces) {
  const Caller user{.proof = "token",
                    .name = "ci",
                    .role = Role::kUser,
                    .namespaces = {"vision", "default"},
                    .node_id = ""};
  EXPECT_TRUE(CheckNamespace(user, "vision").ok());
  EXPECT_TRUE(CheckNamespace(user, "").ok());
  for (const char* name : {"speech", "*", "Vision", "vision ", "visio"}) {
    EXPECT_TRUE(absl::IsPermissionDenied(CheckNamespace(user, name))) << name;
  }
  const Caller limited{
      .proof = "token", .name = "x", .role = Role::kUser, .namespaces = {"vision"}, .node_id = ""};
  EXPECT_TRUE(absl::IsPermissionDenied(CheckNamespace(limited, "")));
  for (const Role role : {Role::kOperator, Role::kAdmin}) {
    const Caller caller{.proof = "token", .name = "c", .role = role, .namespaces = {}, .node_id = ""};
    EXPECT_TRUE(CheckNamespace(caller, "anything").ok());
    EXPECT_TRUE(CheckNamespace(caller, "*").ok());
  }
  const Caller worker{
      .proof = "certificate", .name = "c", .role = Role::kWorker, .namespaces = {}, .node_id = ""};
  EXPECT_TRUE(absl::IsPermissionDenied(CheckNamespace(worker, "vision")));
}

TEST(CallerTest, SpeaksForItsOwnNodeOnly) {
  const Caller one{
      .proof = "certificate", .name = "c", .role = Role::kWorker, .namespaces = {}, .node_id = "node-1"};
  EXPECT_TRUE(CheckNode(one, "node-1").ok());
  EXPECT_TRUE(absl::IsPermissionDenied(CheckNode(one, "node-2")));
  EXPECT_TRUE(absl::IsPermissionDenied(CheckNode(one, "")));
  const Caller any{
      .proof = "certificate", .name = "c", .role = Role::kWorker, .namespaces = {}, .node_id = ""};
  EXPECT_TRUE(CheckNode(any, "node-2").ok());
}

}  // namespace
}  // namespace adaptdl::security
