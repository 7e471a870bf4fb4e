#include "tests/integration/kubernetes/faults/fault_run.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libs/http/http_client.h"
#include "libs/kube/json/object.h"
#include "libs/kubejobs/names.h"
#include "tests/kube/no_credentials.h"
#include "tests/kube/yaml.h"

namespace adaptdl::integration {
namespace {

using kube::Json;

// Of chaos_job.
constexpr size_t kSamples = 120;
constexpr int kNodes = 3;
constexpr int64_t kSomeSteps = 20;
const kube::ChangeOptions kByOthers = {.field_manager = "others"};
const kube::ResourceType kJobs = {kubejobs::kGroup, kubejobs::kVersion, kubejobs::kJobPlural,
                                  kubejobs::kJobKind};
const kube::ResourceType kConfigMaps = {"", "v1", "configmaps", "ConfigMap"};

kube::Target JobTarget(const std::string& name) { return kube::ObjectOf(kJobs, {"default", name}); }

kube::KubeletOptions Nodes(absl::Duration grace) {
  Json nodes = Json::array();
  for (int i = 0; i < kNodes; ++i)
    nodes.push_back({{"name", absl::StrCat("node-", i)},
                     {"allocatable", {{"cpu", "2500m"}, {"memory", "8Gi"}, {"pods", "20"}}}});
  return {.nodes = kube::Dump(nodes),
          .images = R"({"train": {}})",
          .node_grace_seconds = absl::ToDoubleSeconds(grace),
          .eviction_seconds = absl::ToDoubleSeconds(grace)};
}

TestClusterOptions Programs(const std::string& api_server, int supervisors, absl::Duration grace) {
  TestClusterOptions programs;
  programs.workers = 0;
  programs.allocator = false;
  programs.kubernetes = api_server;
  programs.supervisors = supervisors;
  programs.supervisor_flags = {"--node-grace", absl::FormatDuration(grace)};
  return programs;
}

Json Container(const std::string& script) {
  return {{"name", "main"},
          {"image", "train"},
          {"command", {"/bin/sh", "-c", script}},
          {"resources", {{"requests", {{"cpu", "1"}}}}}};
}

std::vector<std::string> TextsAt(const Json& object, const std::vector<absl::string_view>& path) {
  std::vector<std::string> texts;
  const Json* found = &object;
  for (const absl::string_view field : path) found = &kube::At(*found, {field});
  if (!found->is_array()) return texts;
  for (const Json& text : *found) texts.push_back(text.is_string() ? text.get<std::string>() : "");
  return texts;
}

bool HasEnded(const Json& pod) {
  const std::string phase = kube::TextAt(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

}  // namespace

FaultRun::FaultRun(int supervisors, absl::Duration node_grace)
    : kubelet_(api_.url(), Nodes(node_grace)),
      session_(kube::Session::Create(
                   {.server = api_.url(), .credentials = std::make_unique<kube::NoCredentials>()},
                   {.user_agent = "others"})
                   .value()),
      client_(session_.get()),
      cluster_(Programs(api_.url(), supervisors, node_grace)) {}

bool FaultRun::TriesAll() {
  const char* text = std::getenv("ADAPTDL_FAULTS");
  return text != nullptr && std::string(text) == "all";
}

bool FaultRun::Await(const std::function<bool()>& done, absl::Duration limit) {
  const absl::Time end = absl::Now() + limit;
  while (!done()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(50));
  }
  return true;
}

void FaultRun::SetUp() {
  if (!kubelet_.runs()) GTEST_SKIP() << "no containers may run here: be root with CAP_SYS_ADMIN";
  const kube::ResourceType crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                   "CustomResourceDefinition", false};
  for (const char* name : {"adaptdljob", "adaptdlquota"}) {
    const auto made = client_.Create(kube::Collection(crds), kube::ReadCrd(name), kByOthers);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  ASSERT_NO_FATAL_FAILURE(MakeBystanders());
  const absl::Status started = cluster_.StartSupervisor();
  ASSERT_TRUE(started.ok()) << started;
  const absl::Status nodes = cluster_.WaitForNodes(kNodes, kPatience);
  ASSERT_TRUE(nodes.ok()) << nodes;
}

// One of them looks like a replica, but no job owns it.
void FaultRun::MakeBystanders() {
  Json container = Container("exec sleep 1000000");
  container["resources"] = {{"requests", {{"cpu", "100m"}}}};
  const Json pod = {{"metadata",
                     {{"name", "job-12345678-1-0"},
                      {"labels", {{kubejobs::kReplicaLabel, "true"}, {kubejobs::kJobLabel, "job"}}}}},
                    {"spec", {{"containers", Json::array({container})}, {"restartPolicy", "Never"}}}};
  const auto made = client_.Create(kube::Collection(kube::Pods(), "default"), pod, kByOthers);
  ASSERT_TRUE(made.ok()) << made.status();
  const Json map = {{"metadata", {{"name", "job"}}}, {"data", {{"whose", "others"}}}};
  const auto map_made = client_.Create(kube::Collection(kConfigMaps, "default"), map, kByOthers);
  ASSERT_TRUE(map_made.ok()) << map_made.status();
  ASSERT_TRUE(Await([&] {
    const auto found = client_.Get(kube::ObjectOf(kube::Pods(), kube::KeyOf(*made)));
    return found.ok() && kube::TextAt(*found, {"status", "phase"}) == "Running";
  }));
  bystanders_ = BystanderVersions();
  ASSERT_EQ(bystanders_.size(), 2u);
}

std::map<std::string, std::string> FaultRun::BystanderVersions() {
  std::map<std::string, std::string> versions;
  for (const auto& [type, name] :
       {std::pair(kube::Pods(), "job-12345678-1-0"), std::pair(kConfigMaps, "job")}) {
    const auto found = client_.Get(kube::ObjectOf(type, {"default", name}));
    if (found.ok()) versions[type.plural] = kube::ResourceVersionOf(*found);
  }
  return versions;
}

Json FaultRun::Control(const std::string& method, const std::string& what, const Json& body) {
  HttpClient http;
  const auto answer = http.Send({.method = method,
                                 .url = absl::StrCat(api_.url(), "/-/", what),
                                 .body = body.is_null() ? "" : kube::Dump(body)});
  EXPECT_TRUE(answer.ok() && answer->status == 200) << answer.status();
  return answer.ok() ? kube::ParseJson(answer->body).value_or(Json()) : Json();
}

void FaultRun::Halt(int after, bool done) {
  Control("POST", "halt",
          {{"agent", "adaptdl-supervisor/"},
           {"resources", {"adaptdljobs", "adaptdljobs/status", "pods"}},
           {"after", after},
           {"done", done}});
}

std::string FaultRun::AwaitHalt(const std::string& name, const std::vector<std::string>& nodes,
                                int64_t before) {
  std::string at;
  int64_t steps = -1;
  const bool over = Await([&] {
    at = kube::TextAt(Control("GET", "halt"), {"at"});
    if (steps < 0 && HasChanged(name, nodes, before)) steps = StepsOf(name) + kSomeSteps;
    return !at.empty() || (steps >= 0 && StepsOf(name) >= steps);
  });
  EXPECT_TRUE(over) << JobObject(name).dump(1);
  return at;
}

Json FaultRun::JobObject(const std::string& name) { return client_.Get(JobTarget(name)).value_or(Json()); }

std::vector<Json> FaultRun::Pods(const std::string& job) {
  return client_
      .ListAll(kube::Collection(kube::Pods(), "default"),
               {.labels = absl::StrCat(kubejobs::kJobLabel, "=", job)})
      .value_or(std::vector<Json>());
}

std::string FaultRun::PodOn(const std::string& job, const std::string& node) {
  for (const Json& pod : Pods(job)) {
    if (!HasEnded(pod) && kube::TextAt(pod, {"spec", "nodeName"}) == node) return kube::KeyOf(pod).name;
  }
  return "";
}

void FaultRun::StartJob(const std::string& name, const std::string& rescale,
                        const std::vector<std::string>& nodes) {
  const std::string folder = absl::StrCat(cluster_.folder(), "/jobs/", name);
  std::filesystem::create_directories(folder + "/checkpoint");
  // Process ids are each container's own.
  Json container = Container(absl::StrCat("records=", folder, "/$(hostname); mkdir -p $records; exec ",
                                          ADAPTDL_BINARY_DIR, "/tests/chaos_job $records fixed"));
  container["env"] = {{{"name", "ADAPTDL_CHECKPOINT_PATH"}, {"value", folder + "/checkpoint"}}};
  container["volumeMounts"] = {{{"name", "records"}, {"mountPath", folder}}};
  const Json volume = {{"name", "records"}, {"hostPath", {{"path", folder}, {"type", "Directory"}}}};
  const Json job = {
      {"apiVersion", kubejobs::kApiVersion},
      {"kind", kubejobs::kJobKind},
      {"metadata", {{"name", name}}},
      {"spec",
       {{"minReplicas", 1},
        {"maxReplicas", 4},
        {"rescale", rescale},
        {"template",
         {{"spec", {{"containers", Json::array({container})}, {"volumes", Json::array({volume})}}}}}}}};
  const auto made = client_.Create(kube::Collection(kJobs, "default"), job, kByOthers);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_TRUE(Await([&] { return cluster_.GetJob(name).ok(); }));
  ASSERT_NO_FATAL_FAILURE(Rescale(name, nodes));
  AwaitSteps(name);
}

void FaultRun::Decide(const std::string& name, const std::vector<std::string>& nodes) {
  absl::Status status;
  const bool decided = Await([&] {
    if (TextsAt(JobObject(name), {"status", "decision", "nodes"}) == nodes) return true;
    status = cluster_.Allocate(name, nodes);
    return false;
  });
  ASSERT_TRUE(decided) << status << "\n" << JobObject(name).dump(1);
}

bool FaultRun::HasChanged(const std::string& name, const std::vector<std::string>& nodes, int64_t before) {
  const Json status = kube::At(JobObject(name), {"status"});
  if (kube::TextAt(status, {"phase"}) != "Running" || kube::IntegerAt(status, {"group"}) <= before)
    return false;
  std::vector<std::string> allocated = TextsAt(status, {"allocation"});
  std::vector<std::string> wanted = nodes;
  std::sort(allocated.begin(), allocated.end());
  std::sort(wanted.begin(), wanted.end());
  const std::vector<Json> pods = Pods(name);
  const auto live = std::count_if(pods.begin(), pods.end(), [](const Json& pod) { return !HasEnded(pod); });
  const bool let_go = std::all_of(pods.begin(), pods.end(), [](const Json& pod) {
    return !HasEnded(pod) || TextsAt(pod, {"metadata", "finalizers"}).empty();
  });
  return allocated == wanted && static_cast<size_t>(live) == nodes.size() && let_go;
}

void FaultRun::AwaitGroup(const std::string& name, const std::vector<std::string>& nodes, int64_t before) {
  ASSERT_TRUE(Await([&] { return HasChanged(name, nodes, before); })) << JobObject(name).dump(1);
}

void FaultRun::Rescale(const std::string& name, const std::vector<std::string>& nodes) {
  const int64_t before = GroupOf(name);
  ASSERT_NO_FATAL_FAILURE(Decide(name, nodes));
  AwaitGroup(name, nodes, before);
}

int64_t FaultRun::GroupOf(const std::string& name) {
  return kube::IntegerAt(JobObject(name), {"status", "group"});
}

absl::StatusOr<TrainingRecord> FaultRun::ReadRecord(const std::string& name) const {
  const std::string folder = absl::StrCat(cluster_.folder(), "/jobs/", name);
  const std::string all = folder + "-records";
  std::filesystem::create_directories(all);
  // Not further down: checkpoints come and go there.
  for (const auto& host : std::filesystem::directory_iterator(folder)) {
    if (!host.is_directory()) continue;
    for (const auto& entry : std::filesystem::directory_iterator(host)) {
      const std::string extension = entry.path().extension();
      if (extension != ".steps" && extension != ".weights") continue;
      std::filesystem::copy_file(
          entry.path(),
          absl::StrCat(all, "/", host.path().filename().string(), "-", entry.path().filename().string()),
          std::filesystem::copy_options::overwrite_existing);
    }
  }
  return ReadTrainingRecord(all);
}

int64_t FaultRun::StepsOf(const std::string& name) {
  int64_t steps = 0;
  for (const auto& [step, groups] : ReadRecord(name).value_or(TrainingRecord()).taken) steps = step;
  return steps;
}

void FaultRun::AwaitSteps(const std::string& name) {
  const int64_t before = StepsOf(name);
  ASSERT_TRUE(Await([&] { return StepsOf(name) >= before + kSomeSteps; })) << "it does not train any more";
}

void FaultRun::FinishJob(const std::string& name, int rollbacks) {
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat(cluster_.folder(), "/jobs/", name)))
    std::ofstream(entry.path() / "finish").close();
  const auto job = cluster_.WaitForJob(name, Finished, kPatience);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->status().phase(), v1::JOB_PHASE_SUCCEEDED) << job->status().ShortDebugString();
  ASSERT_NO_FATAL_FAILURE(CheckRecord(name, rollbacks));
  ExpectNothingLeft(name);
  EXPECT_EQ(BystanderVersions(), bystanders_) << "what others have was touched";
}

void FaultRun::CheckRecord(const std::string& name, int rollbacks) {
  const absl::StatusOr<TrainingRecord> record = ReadRecord(name);
  ASSERT_TRUE(record.ok()) << record.status();
  const absl::Status alike = AllAlike(*record);
  EXPECT_TRUE(alike.ok()) << alike;
  const auto steps = StepsThatCount(*record);
  ASSERT_TRUE(steps.ok()) << steps.status();
  const absl::Status once = EachSampleOncePerPass(*steps, kSamples, /*whole=*/true);
  EXPECT_TRUE(once.ok()) << once;
  EXPECT_LE(Rollbacks(*record), rollbacks) << "steps were taken again";
  ASSERT_FALSE(record->weights.empty());
  for (const std::vector<double>& weights : record->weights) EXPECT_EQ(weights, record->weights[0]);
  EXPECT_EQ(record->weights[0][0] * kSamples, steps->size() * steps->at(0).size())
      << "passes over all samples";
}

void FaultRun::ExpectNothingLeft(const std::string& name) {
  const absl::Status deleted = client_.Delete(JobTarget(name), {});
  ASSERT_TRUE(deleted.ok()) << deleted;
  EXPECT_TRUE(Await([&] {
    return Pods(name).empty() && absl::IsNotFound(client_.Get(JobTarget(name)).status());
  })) << Json(Pods(name)).dump(1);
  EXPECT_TRUE(Await([&] { return absl::IsNotFound(cluster_.GetJob(name).status()); }));
}

}  // namespace adaptdl::integration
