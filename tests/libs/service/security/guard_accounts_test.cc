// Callers of a cluster with tokens and rules of its own, at the guard.

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "libs/service/security/guard.h"

namespace adaptdl::security {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kSubmitJob[] = "/adaptdl.v1.JobService/SubmitJob";
constexpr char kStreamLogs[] = "/adaptdl.v1.JobService/StreamLogs";
constexpr char kListJobs[] = "/adaptdl.v1.JobService/ListJobs";
constexpr char kDrainNode[] = "/adaptdl.v1.NodeService/DrainNode";

// Knows the tokens in `people`.
class FakeTokens final : public TokenAuthority {
 public:
  absl::StatusOr<Caller> Ask(const std::string& token) override {
    asked.push_back(token);
    if (down) return absl::UnavailableError("the cluster is away");
    const auto found = people.find(token);
    if (found == people.end()) return absl::UnauthenticatedError("nobody's");
    Caller caller{
        .proof = "account", .name = found->second, .role = Role::kAccount, .namespaces = {}, .node_id = ""};
    caller.account = std::make_shared<const Account>();
    return lately[token] = caller;
  }
  std::optional<Caller> Recall(const std::string& token) override {
    const auto found = lately.find(token);
    return found == lately.end() ? std::nullopt : std::optional(found->second);
  }

  std::map<std::string, std::string> people = {{"anns", "ann"}};
  std::map<std::string, Caller> lately;
  std::vector<std::string> asked;
  bool down = false;
};

// Allows what stands in `allowed`, as "ann create adaptdljobs vision".
class FakeAccess final : public AccessAuthority {
 public:
  absl::Status Check(const Caller& caller, const ClusterRule& rule, const std::string& name_space) override {
    asked.push_back(absl::StrCat(caller.name, " ", rule.verb, " ", rule.resource,
                                 rule.subresource.empty() ? "" : "/", rule.subresource, " ", name_space));
    return allowed.contains(asked.back()) ? absl::OkStatus() : absl::PermissionDeniedError(asked.back());
  }

  std::map<std::string, bool> allowed;
  std::vector<std::string> asked;
};

class GuardAccountsTest : public ::testing::Test {
 protected:
  GuardAccountsTest() {
    char folder[] = "/tmp/adaptdl-guard-XXXXXX";
    folder_ = mkdtemp(folder);
    options_.token_file = absl::StrCat(folder_, "/tokens.json");
    user_ = *CreateToken(options_.token_file, {.name = "ci", .role = Role::kUser, .namespaces = {"vision"}},
                         clock_);
    options_.authorities = {tokens_, access_};
    guard_ = *Guard::Create(options_, &clock_);
  }
  ~GuardAccountsTest() override { std::filesystem::remove_all(folder_); }

  absl::Status Authorize(const char* method) { return guard_->Authorize(method, ann_); }
  absl::Status Check(const char* method, const std::string& name_space) {
    return guard_->CheckNamespace(ann_, method, name_space);
  }

  const Credentials ann_ = {.bearer = "anns", .uris = {}};
  ManualClock clock_;
  std::shared_ptr<FakeTokens> tokens_ = std::make_shared<FakeTokens>();
  std::shared_ptr<FakeAccess> access_ = std::make_shared<FakeAccess>();
  GuardOptions options_;
  std::string folder_, user_;
  std::unique_ptr<Guard> guard_;
};

TEST_F(GuardAccountsTest, AskTheClusterOnlyWhereOneMayWait) {
  EXPECT_TRUE(absl::IsUnauthenticated(guard_->Identify(ann_).status()));
  EXPECT_THAT(tokens_->asked, IsEmpty());
  EXPECT_TRUE(Authorize(kSubmitJob).ok());
  EXPECT_THAT(tokens_->asked, ElementsAre("anns"));
  EXPECT_EQ(guard_->Identify(ann_)->name, "ann");
  EXPECT_THAT(tokens_->asked, ElementsAre("anns"));
  // Where the method is about a namespace, only the handler knows it.
  EXPECT_THAT(access_->asked, IsEmpty());
}

TEST_F(GuardAccountsTest, OurOwnTokensAreNobodyElsesBusiness) {
  EXPECT_TRUE(guard_->Authorize(kSubmitJob, {.bearer = user_, .uris = {}}).ok());
  const Credentials revoked = {.bearer = absl::StrCat(kTokenPrefix, "revoked"), .uris = {}};
  EXPECT_TRUE(absl::IsUnauthenticated(guard_->Authorize(kSubmitJob, revoked)));
  EXPECT_TRUE(absl::IsUnauthenticated(guard_->Authorize(kSubmitJob, {})));
  EXPECT_THAT(tokens_->asked, IsEmpty());
  // The table stays theirs.
  EXPECT_TRUE(guard_->CheckNamespace({.bearer = user_, .uris = {}}, kSubmitJob, "vision").ok());
  EXPECT_TRUE(
      absl::IsPermissionDenied(guard_->CheckNamespace({.bearer = user_, .uris = {}}, kSubmitJob, "text")));
  EXPECT_THAT(access_->asked, IsEmpty());
}

TEST_F(GuardAccountsTest, TheClustersRulesDecideInANamespace) {
  EXPECT_TRUE(absl::IsPermissionDenied(Check(kSubmitJob, "vision")));
  access_->allowed["ann create adaptdljobs vision"] = true;
  EXPECT_TRUE(Check(kSubmitJob, "vision").ok());
  EXPECT_EQ(Check(kSubmitJob, "").message(), "ann create adaptdljobs default");
  EXPECT_EQ(Check(kStreamLogs, "vision").message(), "ann get pods/log vision");
  EXPECT_EQ(Check(kListJobs, "*").message(), "ann list adaptdljobs ");
}

TEST_F(GuardAccountsTest, WhatIsNoNamespaceIsNotAskedAbout) {
  for (const std::string& name :
       {std::string("a/b"), std::string("A"), std::string(100, 'a'), std::string("\xff")}) {
    EXPECT_TRUE(absl::IsPermissionDenied(Check(kSubmitJob, name)));
  }
  EXPECT_THAT(access_->asked, IsEmpty());
}

TEST_F(GuardAccountsTest, TheClustersRulesDecideOfTheWholeCluster) {
  EXPECT_EQ(Authorize(kDrainNode).message(), "ann patch nodes ");
  access_->allowed["ann patch nodes "] = true;
  EXPECT_TRUE(Authorize(kDrainNode).ok());
  EXPECT_EQ(Authorize("/adaptdl.v1.AdminService/Backup").message(), "ann backup adaptdljobs ");
  EXPECT_TRUE(Authorize("/adaptdl.v1.AdminService/WhoAmI").ok());
}

TEST_F(GuardAccountsTest, NoAccountIsAService) {
  for (const Permission& permission : AllPermissions()) {
    const bool service = permission.access == Access::kRoles && !IsAllowed(permission, Role::kAdmin);
    if (!service) continue;
    EXPECT_TRUE(absl::IsPermissionDenied(guard_->Authorize(permission.method, ann_))) << permission.method;
  }
  EXPECT_THAT(access_->asked, IsEmpty());
  EXPECT_TRUE(absl::IsUnauthenticated(
      guard_->Authorize(kSubmitJob, {.bearer = "", .uris = {"spiffe://adaptdl/account"}})));
}

TEST_F(GuardAccountsTest, EveryMethodOfPeopleHasARuleOrIsForAll) {
  for (const Permission& permission : AllPermissions()) {
    const bool people = permission.access == Access::kRoles && IsAllowed(permission, Role::kAdmin);
    if (!people || permission.method.find("reflection") != absl::string_view::npos) continue;
    EXPECT_EQ(permission.rule.verb.empty(), permission.for_all_accounts) << permission.method;
  }
}

TEST_F(GuardAccountsTest, AClusterThatIsAwayRefusesNobodyForGood) {
  tokens_->down = true;
  EXPECT_TRUE(absl::IsUnavailable(Authorize(kSubmitJob)));
  EXPECT_TRUE(absl::IsUnavailable(Check(kSubmitJob, "vision")));
  EXPECT_THAT(std::string(Authorize(kSubmitJob).message()), HasSubstr("away"));
}

}  // namespace
}  // namespace adaptdl::security
