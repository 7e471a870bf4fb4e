// People and service accounts of a cluster, against the double of an API server: whose tokens are taken, and that the
// roles there decide.

#include "services/supervisor/kubernetes/identity/cluster_users.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "libs/kube/access/credentials.h"
#include "libs/kube/client/session.h"
#include "tests/kube/double.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

const kube::ResourceType kRoles = {"rbac.authorization.k8s.io", "v1", "roles", "Role"};
const kube::ResourceType kBindings = {"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"};
const kube::ResourceType kAccounts = {"", "v1", "serviceaccounts", "ServiceAccount"};
constexpr security::ClusterRule kCreateJobs = {"create", "adaptdljobs"};
constexpr security::ClusterRule kReadLogs = {"get", "pods", "log"};

class ClusterUsersTest : public ::testing::Test {
 protected:
  std::unique_ptr<kube::Session> MakeSession() {
    kube::Access access = {.server = server_.url(),
                           .credentials = std::make_unique<kube::ConfiguredCredentials>(
                               kube::ConfiguredCredentials::Options{.bearer_token = {.text = "root"}})};
    return kube::Session::Create(std::move(access), {.burst = 100'000,
                                                     .patience = absl::ZeroDuration(),
                                                     .observe = [this](const kube::ApiCall&) { ++calls_; }})
        .value();
  }
  void Make(const kube::ResourceType& type, const Json& object, const std::string& name_space = "default") {
    const auto made = client_.Create(kube::Collection(type, name_space), object, {.field_manager = "test"});
    ASSERT_TRUE(made.ok()) << made.status();
  }
  // What `verb` allows is allowed to ann in namespace "default".
  void Allow(const std::string& verb, const std::string& group, const std::string& resource) {
    const std::string name = absl::StrCat(verb, "-", calls_);
    Make(kRoles, {{"metadata", {{"name", name}}},
                  {"rules", {{{"verbs", {verb}}, {"apiGroups", {group}}, {"resources", {resource}}}}}});
    Make(kBindings,
         {{"metadata", {{"name", name}}},
          {"roleRef", {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "Role"}, {"name", name}}},
          {"subjects", {{{"kind", "User"}, {"apiGroup", "rbac.authorization.k8s.io"}, {"name", "ann"}}}}});
  }
  std::string AccountToken(const std::string& audience) {
    const auto answer = client_.Create(kube::ObjectOf(kAccounts, {"default", "default"}).Sub("token"),
                                       {{"spec", {{"audiences", {audience}}, {"expirationSeconds", 600}}}},
                                       {.strict = false});
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? kube::TextAt(*answer, {"status", "token"}) : "";
  }
  // Asked of the API server by `call`.
  template <typename Call>
  int CallsOf(const Call& call) {
    const int before = calls_;
    call();
    return calls_ - before;
  }

  int calls_ = 0;
  kube::ApiServerDouble server_{"root,root,1,\"system:masters\"\nsecret,ann,2,\"team\"\n"};
  const std::unique_ptr<kube::Session> session_ = MakeSession();
  const kube::Client client_{session_.get()};
  ManualClock clock_;
  const ClusterUsersOptions options_ = {.strangers_per_second = 5};
  ClusterTokens tokens_{&client_, &clock_, options_};
  ClusterAccess access_{&client_, &clock_, options_};
};

TEST_F(ClusterUsersTest, AreKnownByTheClustersTokens) {
  EXPECT_FALSE(tokens_.Recall("secret").has_value());
  const auto ann = tokens_.Ask("secret");
  ASSERT_TRUE(ann.ok()) << ann.status();
  EXPECT_EQ(security::Describe(*ann), "account \"ann\"");
  EXPECT_EQ(ann->role, security::Role::kAccount);
  EXPECT_THAT(ann->account->groups, Contains("team"));
  EXPECT_EQ(tokens_.Recall("secret")->name, "ann");
}

TEST_F(ClusterUsersTest, AServiceAccountsTokenCountsIfItIsForUs) {
  const std::string token = AccountToken(options_.audience);
  const auto caller = tokens_.Ask(token);
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->name, "system:serviceaccount:default:default");
}

TEST_F(ClusterUsersTest, ATokenForOthersCountsNothing) {
  const std::string token = AccountToken("adaptdl-supervisor");
  EXPECT_TRUE(absl::IsUnauthenticated(tokens_.Ask(token).status()));
  EXPECT_FALSE(tokens_.Recall(token).has_value());
}

TEST_F(ClusterUsersTest, WhatCanBeNoTokenIsNotAskedAbout) {
  EXPECT_EQ(CallsOf([&] {
              for (const std::string& token :
                   {std::string(), std::string(1 << 20, 'x'), std::string("a\0b", 3), std::string("a b"),
                    std::string("\xff\xfe"), std::string("a\r\nb")}) {
                EXPECT_TRUE(absl::IsUnauthenticated(tokens_.Ask(token).status()));
                EXPECT_FALSE(tokens_.Recall(token).has_value());
              }
            }),
            0);
}

TEST_F(ClusterUsersTest, AnswersCountForSeconds) {
  EXPECT_EQ(CallsOf([&] { tokens_.Ask("secret").IgnoreError(); }), 1);
  EXPECT_EQ(CallsOf([&] { tokens_.Ask("secret").IgnoreError(); }), 0);
  clock_.Advance(options_.lifetime);
  EXPECT_EQ(CallsOf([&] { tokens_.Ask("secret").IgnoreError(); }), 1);
  // Nobody's, too.
  EXPECT_EQ(CallsOf([&] { tokens_.Ask("guess").IgnoreError(); }), 1);
  EXPECT_EQ(CallsOf([&] { EXPECT_TRUE(absl::IsUnauthenticated(tokens_.Ask("guess").status())); }), 0);
}

TEST_F(ClusterUsersTest, GuessersDoNotKeepOutThoseWhoAreKnown) {
  ASSERT_TRUE(tokens_.Ask("secret").ok());
  int asked = 0;
  for (int i = 0; i < 100; ++i) {
    const absl::Status status = tokens_.Ask(absl::StrCat("guess", i)).status();
    asked += absl::IsUnauthenticated(status) ? 1 : 0;
    EXPECT_TRUE(absl::IsUnauthenticated(status) || absl::IsUnavailable(status)) << status;
  }
  EXPECT_LE(asked, 2 * options_.strangers_per_second);
  EXPECT_EQ(CallsOf([&] { EXPECT_TRUE(absl::IsUnavailable(tokens_.Ask("another").status())); }), 0);
  // The bucket is empty still, and ann's answer is over.
  ClusterTokens patient(&client_, &clock_, {.lifetime = absl::ZeroDuration(), .strangers_per_second = 5});
  ASSERT_TRUE(patient.Ask("secret").ok());
  for (int i = 0; i < 100; ++i) patient.Ask(absl::StrCat("guess", i)).IgnoreError();
  EXPECT_EQ(CallsOf([&] { EXPECT_TRUE(patient.Ask("secret").ok()); }), 1);
}

TEST_F(ClusterUsersTest, RolesDecide) {
  const auto ann = tokens_.Ask("secret");
  ASSERT_TRUE(ann.ok()) << ann.status();
  const absl::Status refused = access_.Check(*ann, kCreateJobs, "default");
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("\"ann\" may not create adaptdljobs.adaptdl.petuum.com"),
                                       HasSubstr("in namespace \"default\"")));
  Allow("create", "adaptdl.petuum.com", "adaptdljobs");
  // The old answer counts for a while.
  EXPECT_TRUE(absl::IsPermissionDenied(access_.Check(*ann, kCreateJobs, "default")));
  clock_.Advance(options_.lifetime);
  EXPECT_TRUE(access_.Check(*ann, kCreateJobs, "default").ok());
  EXPECT_TRUE(absl::IsPermissionDenied(access_.Check(*ann, kCreateJobs, "text")));
  const absl::Status everywhere = access_.Check(*ann, kCreateJobs, "");
  EXPECT_THAT(everywhere.message(), HasSubstr("in the whole cluster"));
  EXPECT_TRUE(absl::IsPermissionDenied(access_.Check(*ann, {"delete", "adaptdljobs"}, "default")));
  EXPECT_EQ(CallsOf([&] { EXPECT_TRUE(access_.Check(*ann, kCreateJobs, "default").ok()); }), 0);
}

TEST_F(ClusterUsersTest, LogsAreThoseOfPods) {
  const auto ann = tokens_.Ask("secret");
  Allow("get", "", "pods");
  const absl::Status refused = access_.Check(*ann, kReadLogs, "default");
  EXPECT_THAT(refused.message(), HasSubstr("may not get pods/log in namespace \"default\""));
  Allow("get", "", "pods/log");
  clock_.Advance(options_.lifetime);
  EXPECT_TRUE(access_.Check(*ann, kReadLogs, "default").ok());
}

TEST_F(ClusterUsersTest, AnswersOfOneAreNotThoseOfAnother) {
  const auto ann = tokens_.Ask("secret");
  Allow("create", "adaptdl.petuum.com", "adaptdljobs");
  ASSERT_TRUE(access_.Check(*ann, kCreateJobs, "default").ok());
  security::Caller bob = *ann;
  bob.name = "bob";
  EXPECT_TRUE(absl::IsPermissionDenied(access_.Check(bob, kCreateJobs, "default")));
  security::Caller nobody = *ann;
  nobody.account = nullptr;
  EXPECT_FALSE(access_.Check(nobody, kCreateJobs, "default").ok());
}

TEST_F(ClusterUsersTest, WithoutTheApiServerNobodyIsRefusedForGood) {
  const auto ann = tokens_.Ask("secret");
  ASSERT_TRUE(ann.ok());
  server_.Stop();
  EXPECT_TRUE(absl::IsUnavailable(access_.Check(*ann, kCreateJobs, "default")));
  clock_.Advance(options_.lifetime);
  EXPECT_TRUE(absl::IsUnavailable(tokens_.Ask("secret").status()));
  EXPECT_THAT(tokens_.Ask("secret").status().message(), Not(HasSubstr("secret")));
  EXPECT_EQ(tokens_.Recall("secret")->name, "ann");
  server_.Start();
  EXPECT_TRUE(tokens_.Ask("secret").ok());
}

}  // namespace
}  // namespace adaptdl::supervisor
