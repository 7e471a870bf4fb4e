// Who may do what, at a supervisor as it is served: every method of every service, for every kind of caller.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "libs/base/file.h"
#include "libs/service/log_writer.h"
#include "tests/services/supervisor/replica_calls.h"
#include "tests/services/supervisor/secure_cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using security::Access;
using security::AllPermissions;
using security::Permission;
using security::Role;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SecurityTest : public SecureClusterTest {
 protected:
  v1::Job SubmitIn(const std::string& name_space, const std::string& name) {
    v1::Job job = NewJob(name);
    job.set_namespace_(name_space);
    return Submit(job);
  }

  static void SetText(Message* message, const char* name, const std::string& value) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
    if (field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !field->is_repeated())
      message->GetReflection()->SetString(message, field, value);
  }

  // A request of `method` about that job.
  static std::string RequestAbout(absl::string_view method, const std::string& name_space,
                                  const std::string& name) {
    const std::vector<std::string> parts = absl::StrSplit(method, '/');
    const auto* service = DescriptorPool::generated_pool()->FindServiceByName(parts[1]);
    const Descriptor* type = service->FindMethodByName(parts[2])->input_type();
    const std::unique_ptr<Message> request(MessageFactory::generated_factory()->GetPrototype(type)->New());
    SetText(request.get(), "request_id", "r");
    Message* about = request.get();
    if (const FieldDescriptor* job = type->FindFieldByName("job")) {
      about = request->GetReflection()->MutableMessage(request.get(), job);
    }
    SetText(about, "namespace", name_space);
    SetText(about, "name", name);
    return request->SerializeAsString();
  }

  v1::WhoAmIResponse WhoAmI(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::WhoAmIResponse response;
    EXPECT_TRUE(v1::AdminService::NewStub(channel)->WhoAmI(&context, {}, &response).ok());
    return response;
  }
};

TEST_F(SecurityTest, EveryMethodRefusesStrangers) {
  const auto nobody = Person("");
  const auto pretender = Person("adaptdl_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
  for (const Permission& permission : AllPermissions()) {
    const grpc::Status status = Call(nobody, permission.method);
    if (permission.access == Access::kPublic) {
      EXPECT_FALSE(IsRefusal(status)) << permission.method;
      continue;
    }
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << permission.method;
    EXPECT_EQ(Call(pretender, permission.method).error_code(), grpc::StatusCode::UNAUTHENTICATED)
        << permission.method;
  }
  EXPECT_EQ(Call(nobody, "/adaptdl.v1.JobService/NoSuchMethod").error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(SecurityTest, EveryMethodServesItsRolesAndRefusesTheOthers) {
  for (const auto& [role, channel] : Everybody()) {
    for (const Permission& permission : AllPermissions()) {
      if (permission.access != Access::kRoles) continue;
      const grpc::Status status = Call(channel, permission.method);
      const std::string what =
          absl::StrCat(RoleName(role), " calls ", permission.method, ": ", status.error_message());
      if (IsAllowed(permission, role)) {
        EXPECT_FALSE(IsRefusal(status)) << what;
      } else {
        EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << what;
      }
    }
  }
}

TEST_F(SecurityTest, UsersLearnNothingAboutNamespacesOfOthers) {
  SubmitIn("b", "secret");
  const auto user = Person(user_);
  for (const Permission& permission : AllPermissions()) {
    if (!permission.in_namespace) continue;
    const grpc::Status there = Call(user, permission.method, RequestAbout(permission.method, "b", "secret"));
    const grpc::Status not_there =
        Call(user, permission.method, RequestAbout(permission.method, "b", "none"));
    const grpc::Status no_namespace =
        Call(user, permission.method, RequestAbout(permission.method, "c", "x"));
    EXPECT_EQ(there.error_code(), grpc::StatusCode::PERMISSION_DENIED) << permission.method;
    EXPECT_EQ(there.error_message(), "token \"user\" may not use namespace \"b\"") << permission.method;
    EXPECT_EQ(not_there.error_code(), there.error_code()) << permission.method;
    EXPECT_EQ(not_there.error_message(), there.error_message()) << permission.method;
    EXPECT_EQ(no_namespace.error_message(), "token \"user\" may not use namespace \"c\"")
        << permission.method;
    EXPECT_EQ(Call(user, permission.method, RequestAbout(permission.method, "*", "")).error_code(),
              grpc::StatusCode::PERMISSION_DENIED)
        << permission.method;
    // In its own namespace, there is nothing to hide.
    EXPECT_FALSE(IsRefusal(Call(user, permission.method, RequestAbout(permission.method, "a", "none"))));
  }
}

TEST_F(SecurityTest, AGuessedRequestIdGivesNothingAway) {
  const std::string other = AddToken("other", Role::kUser, {"a", "b"});
  const auto submit = [&](const std::string& token, const std::string& name_space, const std::string& secret,
                          v1::Job* result) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::SubmitJobRequest request;
    request.set_request_id("guessed");
    request.set_generate_name("run-");
    *request.mutable_job() = NewJob("");
    request.mutable_job()->set_namespace_(name_space);
    v1::EnvironmentVariable* variable = request.mutable_job()->mutable_spec()->mutable_template_()->add_env();
    variable->set_name("SECRET");
    variable->set_value(secret);
    v1::SubmitJobResponse response;
    const grpc::Status status =
        v1::JobService::NewStub(Person(token))->SubmitJob(&context, request, &response);
    *result = response.job();
    return status;
  };
  v1::Job first;
  ASSERT_TRUE(submit(user_, "a", "of user", &first).ok());
  // Another namespace, and another caller in the same one: each gets a job of its own.
  for (const char* name_space : {"b", "a"}) {
    v1::Job job;
    const grpc::Status status = submit(other, name_space, "of other", &job);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_NE(job.uid(), first.uid());
    EXPECT_EQ(job.spec().template_().env(0).value(), "of other");
  }
  v1::Job repeated;
  ASSERT_TRUE(submit(user_, "a", "of user", &repeated).ok());
  EXPECT_EQ(repeated.uid(), first.uid());
}

TEST_F(SecurityTest, OperatorsReadAllNamespacesAndChangeNoJob) {
  SubmitIn("b", "secret");
  const auto operators = Person(operator_);
  constexpr char kList[] = "/adaptdl.v1.JobService/ListJobs";
  constexpr char kCancel[] = "/adaptdl.v1.JobService/CancelJob";
  EXPECT_TRUE(Call(operators, kList, RequestAbout(kList, "*", "")).ok());
  EXPECT_EQ(Call(operators, kCancel, RequestAbout(kCancel, "b", "secret")).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(SecurityTest, TokensEndWhenTheyExpireOrAreRevoked) {
  constexpr char kWhoAmI[] = "/adaptdl.v1.AdminService/WhoAmI";
  const auto brief = Person(AddToken("brief", Role::kAdmin, {}, absl::Minutes(5)));
  const auto revoked = Person(AddToken("revoked", Role::kAdmin, {}));
  EXPECT_TRUE(Call(brief, kWhoAmI).ok());
  EXPECT_TRUE(Call(revoked, kWhoAmI).ok());
  ASSERT_TRUE(security::RevokeToken(server_options_.security.token_file, "revoked").ok());
  clock_.Advance(absl::Minutes(5));
  for (const auto& channel : {brief, revoked}) {
    const grpc::Status status = Call(channel, kWhoAmI);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(status.error_message(), "the token is unknown, revoked or expired; ask an admin for another");
  }
}

TEST_F(SecurityTest, StreamsEndWithTheTokenThatAllowedThem) {
  const auto jobs = v1::JobService::NewStub(Person(AddToken("leaver", Role::kUser, {"a"})));
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::WatchJobsRequest request;
  request.set_namespace_("a");
  const auto stream = jobs->WatchJobs(&context, request);
  v1::WatchJobsResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.initial_list_done());
  Advance(absl::Seconds(2));
  SubmitIn("a", "seen");
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.job().name(), "seen");
  ASSERT_TRUE(security::RevokeToken(server_options_.security.token_file, "leaver").ok());
  Advance(absl::Seconds(2));
  while (stream->Read(&response)) EXPECT_EQ(response.job().name(), "seen");
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(SecurityTest, TellsEverybodyWhoTheyAre) {
  EXPECT_EQ(WhoAmI(Person(user_)).name(), "user");
  EXPECT_EQ(WhoAmI(Person(user_)).role(), "user");
  EXPECT_THAT(WhoAmI(Person(user_)).namespaces(), ElementsAre("a", "default"));
  EXPECT_EQ(WhoAmI(Person(admin_)).role(), "admin");
  EXPECT_THAT(WhoAmI(Person(admin_)).namespaces(), ElementsAre("*"));
  EXPECT_EQ(WhoAmI(Service("worker/n1")).name(), "worker/n1");
  EXPECT_EQ(WhoAmI(Service("worker/n1")).role(), "worker");
  EXPECT_THAT(WhoAmI(Service("worker/n1")).namespaces(), IsEmpty());
}

TEST_F(SecurityTest, AWorkerWithItsNodesCertificateIsNoOtherNode) {
  const auto certificate = Service("worker/n1");
  FakeWorker own(certificate, "n1");
  EXPECT_TRUE(own.Register().ok());
  FakeWorker other(certificate, "n2");
  const grpc::Status status = other.Register();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("may not be another node than \"n1\""));
  // Neither on a stream of its own, with whatever session.
  const auto victim = AddWorker("n2");
  FakeWorker intruder(certificate, "n2");
  intruder.Connect();
  EXPECT_EQ(intruder.End().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

class ReplicaSecurityTest : public SecurityTest {
 protected:
  void SetUp() override {
    SecurityTest::SetUp();
    worker_ = AddWorker("n1");
    other_worker_ = AddWorker("n2");
    mine_ = Launch("mine", worker_.get(), "n1");
    theirs_ = Launch("theirs", other_worker_.get(), "n2");
  }
  void TearDown() override {
    worker_ = nullptr;
    other_worker_ = nullptr;
    SecurityTest::TearDown();
  }

  v1::LaunchReplica Launch(const std::string& name, FakeWorker* worker, const std::string& node) {
    Allocate(SubmitIn("", name), {node});
    return worker->NextLaunch();
  }
  static v1::Hints SomeHints() {
    v1::Hints hints;
    hints.set_init_batch_size(64);
    hints.set_max_profiled_replicas(1);
    return hints;
  }

  std::unique_ptr<FakeWorker> worker_, other_worker_;
  v1::LaunchReplica mine_, theirs_;
};

TEST_F(ReplicaSecurityTest, AReplicaSpeaksForItselfOnly) {
  EXPECT_TRUE(ReportHints(IdentityOf(mine_), mine_.token(), SomeHints()).ok());
  const grpc::Status theirs = ReportHints(IdentityOf(theirs_), mine_.token(), SomeHints());
  v1::ReplicaIdentity nobody = IdentityOf(theirs_);
  nobody.set_job("none");
  const grpc::Status none = ReportHints(nobody, mine_.token(), SomeHints());
  EXPECT_EQ(theirs.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(none.error_code(), theirs.error_code());
  EXPECT_EQ(none.error_message(), theirs.error_message());
  v1::ReplicaIdentity older = IdentityOf(mine_);
  older.set_group(mine_.group() - 1);
  EXPECT_EQ(ReportHints(older, mine_.token(), SomeHints()).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(ReplicaSecurityTest, NobodyElseSpeaksForAReplicaNorAReplicaForOthers) {
  // Not even an admin: there is one who knows the group's secret.
  for (const std::string& token : {user_, admin_}) {
    EXPECT_EQ(ReportHints(IdentityOf(mine_), token, SomeHints()).error_code(),
              grpc::StatusCode::UNAUTHENTICATED);
  }
  const auto replica = Person(mine_.token());
  for (const Permission& permission : AllPermissions()) {
    if (permission.access != Access::kRoles) continue;
    EXPECT_EQ(Call(replica, permission.method).error_code(), grpc::StatusCode::UNAUTHENTICATED)
        << permission.method;
  }
}

TEST_F(ReplicaSecurityTest, TheTokenOfAGroupThatIsOverIsRefused) {
  worker_->Running(mine_);
  worker_->Exited(mine_, 1);
  WaitFor("mine", [](const v1::Job& job) { return job.status().has_retry_time(); });
  Advance(absl::Seconds(1));
  const v1::LaunchReplica next = worker_->NextLaunch();
  ASSERT_GT(next.group(), mine_.group());
  // The stale replica learns that it is one, and can't be one of the new group.
  EXPECT_EQ(ReportHints(IdentityOf(mine_), mine_.token(), SomeHints()).error_code(),
            grpc::StatusCode::ABORTED);
  EXPECT_EQ(ReportHints(IdentityOf(next), mine_.token(), SomeHints()).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(ReportHints(IdentityOf(next), next.token(), SomeHints()).ok());
}

// Of a launch whose job has access to the API.
std::string ApiTokenIn(const v1::LaunchReplica& launch) {
  for (const v1::EnvironmentVariable& variable : launch.template_().env()) {
    if (variable.name() == "ADAPTDL_TOKEN") return variable.value();
  }
  return "";
}

TEST_F(ReplicaSecurityTest, AJobThatAsksForItCallsTheApiAsAUserOfItsNamespace) {
  EXPECT_EQ(ApiTokenIn(mine_), "");
  v1::Job job = NewJob("tuner");
  job.mutable_spec()->mutable_template_()->set_api_access(true);
  Allocate(Submit(job), {"n1"});
  const v1::LaunchReplica launch = worker_->NextLaunch();
  const std::string token = ApiTokenIn(launch);
  const auto tuner = Person(token);
  const v1::WhoAmIResponse who = WhoAmI(tuner);
  EXPECT_EQ(who.name(), "default/tuner");
  EXPECT_EQ(who.role(), "user");
  for (const Permission& permission : AllPermissions()) {
    if (permission.access != Access::kRoles) continue;
    EXPECT_EQ(IsRefusal(Call(tuner, permission.method)), !IsAllowed(permission, Role::kUser))
        << permission.method;
  }
  constexpr char kList[] = "/adaptdl.v1.JobService/ListJobs";
  EXPECT_TRUE(Call(tuner, kList, RequestAbout(kList, "default", "")).ok());
  EXPECT_EQ(Call(tuner, kList, RequestAbout(kList, "a", "")).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Call(tuner, kList, RequestAbout(kList, "*", "")).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ReportHints(IdentityOf(launch), token, SomeHints()).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(AuditRecords().back()["caller"], "job \"default/tuner\"");
  worker_->Running(launch);
  worker_->Exited(launch, 0);
  WaitForPhase("tuner", v1::JOB_PHASE_SUCCEEDED);
  EXPECT_EQ(Call(tuner, kList, RequestAbout(kList, "default", "")).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(ReplicaSecurityTest, SecretsStayWhereTheyBelong) {
  ASSERT_FALSE(mine_.token().empty());
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::GetJobRequest request;
  request.set_name("mine");
  v1::GetJobResponse response;
  ASSERT_TRUE(jobs_->GetJob(&context, request, &response).ok());
  EXPECT_THAT(response.DebugString(), Not(HasSubstr(mine_.token())));
  EXPECT_THAT(Snapshot().DebugString(), Not(HasSubstr(mine_.token())));
}

TEST_F(SecurityTest, TheAuditLogTellsWhoDidWhatAndNoSecrets) {
  constexpr char kSubmit[] = "/adaptdl.v1.JobService/SubmitJob";
  v1::SubmitJobRequest request;
  request.set_request_id("r1");
  request.set_generate_name("train-");
  *request.mutable_job() = NewJob("");
  request.mutable_job()->set_namespace_("a");
  auto* variable = request.mutable_job()->mutable_spec()->mutable_template_()->add_env();
  variable->set_name("PASSWORD");
  variable->set_value("hunter2");
  ASSERT_TRUE(Call(Person(user_), kSubmit, request.SerializeAsString()).ok());
  request.mutable_job()->set_namespace_("b");
  EXPECT_EQ(Call(Person(user_), kSubmit, request.SerializeAsString()).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  constexpr char kGet[] = "/adaptdl.v1.JobService/GetJob";
  Call(Person(user_), kGet, RequestAbout(kGet, "b", "secret"));
  Call(Person(user_), kGet, RequestAbout(kGet, "a", "none"));
  Call(Person(user_), "/adaptdl.v1.QuotaService/SetQuota");
  StopSecurely();  // All calls are over.
  const std::string text = *ReadWholeFile(server_options_.security.audit_log);
  for (const std::string& secret : {std::string("hunter2"), std::string("PASSWORD"), std::string("train\""),
                                    std::string("adaptdl_"), user_}) {
    EXPECT_THAT(text, Not(HasSubstr(secret)));
  }
  std::vector<std::string> told;
  for (const nlohmann::json& record : AuditRecords()) {
    EXPECT_EQ(record["caller"], "token \"user\"");
    const std::string name = record.value("name", "");
    told.push_back(
        absl::StrCat(record["method"].get<std::string>().substr(12), " ", record.value("namespace", ""), " ",
                     name.starts_with("train-") ? "train-" : name, " ", record["code"].get<std::string>()));
  }
  EXPECT_THAT(told, testing::UnorderedElementsAre("JobService/SubmitJob a train- OK",
                                                  "JobService/SubmitJob b  PERMISSION_DENIED",
                                                  "JobService/GetJob b secret PERMISSION_DENIED",
                                                  "QuotaService/SetQuota   PERMISSION_DENIED"));
}

TEST_F(SecurityTest, LogsHoldNoTokens) {
  StopSecurely();
  server_options_.log_level = "debug";
  testing::internal::CaptureStderr();
  StartSecurely();
  const std::string wrong = "adaptdl_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB";
  for (const std::string& token : {user_, admin_, wrong}) {
    for (const Permission& permission : AllPermissions()) Call(Person(token), permission.method);
  }
  StopSecurely();
  EXPECT_TRUE(log::Flush(absl::Seconds(30)));
  const std::string logs = testing::internal::GetCapturedStderr();
  EXPECT_THAT(logs, HasSubstr("serving"));
  EXPECT_THAT(logs, Not(HasSubstr("adaptdl_")));
}

}  // namespace
}  // namespace adaptdl::supervisor
