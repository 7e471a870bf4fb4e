// A KubeJobStore against the double of an API server.

#ifndef ADAPTDL_TESTS_SERVICES_SUPERVISOR_KUBERNETES_STORE_STORE_FIXTURE_H_
#define ADAPTDL_TESTS_SERVICES_SUPERVISOR_KUBERNETES_STORE_STORE_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "libs/http/http_client.h"
#include "libs/kube/client/client.h"
#include "services/supervisor/kubernetes/store/job_status_object.h"
#include "services/supervisor/kubernetes/store/kube_job_store.h"
#include "services/supervisor/kubernetes/store/object_types.h"
#include "services/supervisor/store/convert.h"
#include "services/supervisor/store/memory_job_store.h"
#include "tests/kube/double.h"
#include "tests/kube/no_credentials.h"

namespace adaptdl::supervisor {

class FakeLease final : public LeaderLease {
 public:
  int64_t term() const override { return term_now; }
  bool Valid() const override { return given_up.empty(); }
  absl::Status AwaitValid(absl::Duration /*timeout*/) override {
    return Valid() ? absl::OkStatus() : absl::DeadlineExceededError("given up");
  }
  void GiveUp(const std::string& why) override { given_up.push_back(why); }

  int64_t term_now = 7;
  std::vector<std::string> given_up;
};

class KubeStoreTest : public ::testing::Test {
 protected:
  KubeStoreTest() {
    for (const auto& type : {AdaptDLJobs(), AdaptDLQuotas()}) MakeCrd(type);
    Open();
  }

  static kube::Access AccessTo(const std::string& url) {
    return {.server = url, .credentials = std::make_unique<kube::NoCredentials>()};
  }
  // A type of which all fields are kept.
  void MakeCrd(const kube::ResourceType& type) {
    const kube::Json crd = {
        {"metadata", {{"name", absl::StrCat(type.plural, ".", type.group)}}},
        {"spec",
         {{"group", type.group},
          {"scope", "Namespaced"},
          {"names", {{"plural", type.plural}, {"kind", type.kind}}},
          {"versions", kube::Json::array({{{"name", type.version},
                                           {"served", true},
                                           {"storage", true},
                                           {"subresources", {{"status", kube::Json::object()}}},
                                           {"schema",
                                            {{"openAPIV3Schema",
                                              {{"type", "object"},
                                               {"x-kubernetes-preserve-unknown-fields", true}}}}}}})}}}};
    const kube::ResourceType crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                     "CustomResourceDefinition", false};
    const auto made = client_.Create(kube::Collection(crds), crd, {.field_manager = "test"});
    ASSERT_TRUE(made.ok()) << made.status();
  }

  // A supervisor that has just started.
  void Open() {
    store_ = std::make_unique<KubeJobStore>(
        KubeJobStoreParts{.client = &client_,
                          .lease = &lease_,
                          .tokens = &tokens_,
                          .clock = &clock_,
                          .history = &history_,
                          .job_from_object = [](const kube::Json& object) -> absl::StatusOr<v1::Job> {
                            if (kube::BoolAt(object, {"spec", "bad"}))
                              return absl::InvalidArgumentError("spec.bad: is bad");
                            v1::Job job;
                            const kube::ObjectKey key = kube::KeyOf(object);
                            job.set_namespace_(key.name_space);
                            job.set_name(key.name);
                            job.set_uid(kube::UidOf(object));
                            job.mutable_spec()->set_max_replicas(
                                static_cast<int>(kube::IntegerAt(object, {"spec", "maxReplicas"})));
                            return job;
                          }});
  }
  StoreContents Load() {
    absl::StatusOr<StoreContents> contents = store_->Load(clock_.Now());
    EXPECT_TRUE(contents.ok()) << contents.status();
    return contents.ok() ? *std::move(contents) : StoreContents();
  }

  kube::Json MakeObject(const std::string& name, const kube::Json& spec = {{"maxReplicas", 4}}) {
    const auto made = client_.Create(kube::Collection(AdaptDLJobs(), "default"),
                                     {{"apiVersion", AdaptDLJobs().ApiVersion()},
                                      {"kind", AdaptDLJobs().kind},
                                      {"metadata", {{"name", name}}},
                                      {"spec", spec}},
                                     {.field_manager = "test"});
    EXPECT_TRUE(made.ok()) << made.status();
    return made.value_or(kube::Json());
  }
  // As kubernetes/jobs adds it.
  JobRecord RecordOf(const kube::Json& object, int64_t sequence = 1) {
    auto job = std::make_shared<v1::Job>();
    job->set_namespace_("default");
    job->set_name(kube::KeyOf(object).name);
    job->set_uid(kube::UidOf(object));
    JobRecord record;
    record.sequence = sequence;
    record.job = job;
    record.state = NewState(*job);
    record.state.reason = "Queued";
    record.times.submitted = clock_.Now();
    return record;
  }
  // An object and its record, which is stored.
  JobRecord AddJob(const std::string& name, int64_t sequence = 1) {
    const kube::Json object = MakeObject(name);
    store_->Seen(object);
    JobRecord record = RecordOf(object, sequence);
    EXPECT_TRUE(Put(record).ok());
    return record;
  }
  // Gives it a group of two that run.
  static std::vector<ReplicaRecord> Run(JobRecord* record) {
    record->state.phase = jobs::Phase::kRunning;
    record->state.group = record->state.last_group = 1;
    record->state.allocation = {"n1", "n2"};
    std::vector<ReplicaRecord> replicas(2);
    for (int rank = 0; rank < 2; ++rank) {
      ReplicaRecord& replica = replicas[rank];
      replica.job_uid = record->uid();
      replica.launch_group = 1;
      replica.launch_rank = rank;
      replica.replica.set_replica_id(absl::StrCat(record->state.id_prefix, "-1-", rank));
      replica.replica.set_group(1);
      replica.replica.set_rank(rank);
      replica.replica.set_node_id(record->state.allocation[rank]);
      replica.replica.set_state(v1::REPLICA_STATE_RUNNING);
    }
    return replicas;
  }

  absl::Status Put(const JobRecord& record, const std::vector<ReplicaRecord>& replicas = {}) {
    WriteBatch batch;
    batch.put_jobs = {record};
    batch.put_replicas = replicas;
    return store_->Commit(batch);
  }
  kube::Target TargetOf(const std::string& name) { return kube::ObjectOf(AdaptDLJobs(), {"default", name}); }
  kube::Json Get(const std::string& name) { return client_.Get(TargetOf(name)).value_or(kube::Json()); }
  kube::Json StatusOfJob(const std::string& name) { return kube::At(Get(name), {"status"}); }
  // Somebody else changes it.
  void Patch(const kube::Target& target, const kube::Json& patch) {
    const auto patched = client_.MergePatch(target, patch, {.field_manager = "somebody"});
    ASSERT_TRUE(patched.ok()) << patched.status();
  }

  // tests/kube/apiserver/faults.py
  kube::Json Control(const std::string& method, const std::string& what, const kube::Json& body = {}) {
    HttpClient http;
    const auto answer = http.Send({.method = method,
                                   .url = server_.url() + "/-/" + what,
                                   .body = body.is_null() ? "" : kube::Dump(body)});
    EXPECT_TRUE(answer.ok() && answer->status == 200) << answer.status();
    return kube::ParseJson(answer->body).value_or(kube::Json());
  }
  int64_t Calls(const std::string& verb) {
    int64_t calls = 0;
    const kube::Json counts = Control("GET", "calls");
    for (const auto& [what, count] : counts.items()) {
      if (what.starts_with(verb + " ")) calls += count.get<int64_t>();
    }
    return calls;
  }

  kube::ApiServerDouble server_;
  // Called after each try.
  std::function<void(const kube::ApiCall&)> observe_ = [](const kube::ApiCall&) {};
  const std::unique_ptr<kube::Session> session_ =
      kube::Session::Create(AccessTo(server_.url()),
                            {.burst = 100'000,
                             .patience = absl::ZeroDuration(),
                             .observe = [this](const kube::ApiCall& call) { observe_(call); }})
          .value();
  const kube::Client client_{session_.get()};
  FakeLease lease_;
  ManualClock clock_;
  const GroupTokens tokens_ = GroupTokens::Create(std::string(32, 'k')).value();
  MemoryJobStore history_;
  std::unique_ptr<KubeJobStore> store_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_TESTS_SERVICES_SUPERVISOR_KUBERNETES_STORE_STORE_FIXTURE_H_
