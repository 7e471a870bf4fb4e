// A managed instance group of Google Cloud as far as the provider sees it, with its machines, served over HTTP. It makes machines at
// once, or when a test says so; has no capacity, loses answers, refuses and takes machines back as a test likes. It is the metadata
// service of the caller's machine, too, which gives out tokens.

#ifndef ADAPTDL_TESTS_SERVICES_AUTOSCALER_PROVIDERS_GCP_FAKE_INSTANCE_GROUP_H_
#define ADAPTDL_TESTS_SERVICES_AUTOSCALER_PROVIDERS_GCP_FAKE_INSTANCE_GROUP_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/mutex.h"
#include "nlohmann/json.hpp"
#include "tests/libs/http/test_server.h"

namespace adaptdl::autoscaler {

// Thread-safe. It has one group, "workers", in the zone "z" of the project "p".
class FakeInstanceGroup {
 public:
  struct Machine {
    std::string id = {};
    std::string action = "NONE";
    std::string status = "RUNNING";
    // Of the last try to make it.
    std::string failure = {};
  };
  struct Group {
    std::map<std::string, Machine> machines = {};
    // How many machines can be had. Negative: as many as anybody likes.
    int capacity = -1;
    // Whether machines are made at once; and whether those to be made are shown before.
    bool settles_at_once = true;
    bool shows_at_once = true;
    // What operations fail with: a code.
    std::string operation_failure = {};
    // Machines of one page.
    size_t page = 500;
  };

  FakeInstanceGroup() : server_([this](Exchange& exchange) { Serve(exchange); }) {}

  std::string url() const { return server_.url(); }

  Group group() const {
    MutexLock lock(&mutex_);
    return group_;
  }
  void Change(const std::function<void(Group&)>& change) {
    MutexLock lock(&mutex_);
    change(group_);
  }
  // Makes what is to be made.
  void Settle() {
    MutexLock lock(&mutex_);
    MakeAll();
  }
  // The next call of this name is carried out, and its answer lost; or it fails so and is not carried out.
  void LoseNext(const std::string& call) {
    MutexLock lock(&mutex_);
    lose_ = call;
  }
  void FailNext(const std::string& call, int status, const std::string& reason, int times = 1) {
    MutexLock lock(&mutex_);
    fail_ = call;
    fail_status_ = status;
    fail_reason_ = reason;
    fail_times_ = times;
  }
  int calls(const std::string& call) const {
    MutexLock lock(&mutex_);
    const auto found = calls_.find(call);
    return found == calls_.end() ? 0 : found->second;
  }
  // Machines that are there, or to be made.
  int living() const {
    MutexLock lock(&mutex_);
    int count = static_cast<int>(hidden_.size());
    for (const auto& [name, machine] : group_.machines) count += machine.action != "DELETING";
    return count;
  }

 private:
  using Json = nlohmann::json;

  void Serve(Exchange& exchange) {
    const std::string path = exchange.request().Path();
    constexpr char kZone[] = "/compute/v1/projects/p/zones/z/";
    std::pair<int, Json> answer = {404, Error(404, "notFound", path)};
    bool cut = false;
    const auto token = exchange.request().headers.find("authorization");
    if (path == "/computeMetadata/v1/instance/service-accounts/default/token") {
      answer = {200, {{"access_token", "token-of-the-machine"}, {"expires_in", 3599}}};
    } else if (token == exchange.request().headers.end() ||
               !absl::StartsWith(token->second, "Bearer token-")) {
      answer = {401, Error(401, "authError", "no token")};
    } else if (absl::StartsWith(path, kZone)) {
      MutexLock lock(&mutex_);
      const std::string rest = path.substr(sizeof(kZone) - 1);
      const bool of_group = absl::StartsWith(rest, "instanceGroupManagers/workers/");
      const std::string call = of_group ? rest.substr(rest.rfind('/') + 1) : rest.substr(0, rest.find('/'));
      ++calls_[call];
      if (call == fail_ && fail_times_ > 0) {
        --fail_times_;
        answer = {fail_status_, Error(fail_status_, fail_reason_, "says the test")};
      } else {
        answer = Carry(call, rest.substr(rest.rfind('/') + 1), exchange.request());
        cut = call == lose_;
        if (cut) lose_.clear();
      }
    }
    if (cut) return exchange.Cut();
    exchange.Answer(answer.first, answer.second.dump());
  }

  static Json Error(int status, const std::string& reason, const std::string& message) {
    return {{"error",
             {{"code", status},
              {"message", message},
              {"errors", Json::array({{{"reason", reason}, {"message", message}}})}}}};
  }
  static Json Errors(const std::string& code) {
    return {{"errors", Json::array({{{"code", code}, {"message", "says the test"}}})}};
  }

  std::pair<int, Json> Carry(const std::string& call, const std::string& name, const ServedRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (call == "listManagedInstances") return {200, List(request)};
    if (call == "createInstances") return Create(request);
    if (call == "deleteInstances") return {200, Delete(request)};
    if (call == "instances") return Describe(name);
    if (call == "operations") {
      Json operation = {{"name", name}, {"status", "DONE"}};
      if (!group_.operation_failure.empty()) operation["error"] = Errors(group_.operation_failure);
      return {200, operation};
    }
    return {404, Error(404, "notFound", call)};
  }

  Json List(const ServedRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Json answer = {{"managedInstances", Json::array()}};
    const std::string after = request.Argument("pageToken");
    for (auto machine = group_.machines.upper_bound(after); machine != group_.machines.end(); ++machine) {
      if (answer["managedInstances"].size() == group_.page) {
        answer["nextPageToken"] = std::prev(machine)->first;
        break;
      }
      Json entry = {{"instance", "https://www.example/projects/p/zones/z/instances/" + machine->first},
                    {"currentAction", machine->second.action}};
      if (!machine->second.id.empty()) {
        entry["id"] = machine->second.id;
        entry["instanceStatus"] = machine->second.status;
      }
      if (!machine->second.failure.empty())
        entry["lastAttempt"] = {{"errors", Errors(machine->second.failure)}};
      answer["managedInstances"].push_back(entry);
    }
    return answer;
  }

  std::pair<int, Json> Create(const ServedRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Json body = Json::parse(request.body);
    const std::string id = request.Argument("requestId");
    if (id.size() != 36) return {400, Error(400, "invalid", "requestId")};
    const Json operation = {{"name", "operation-" + id}, {"status", "RUNNING"}};
    if (!requests_.insert(id).second) return {200, operation};
    for (const Json& instance : body["instances"]) {
      if (group_.machines.contains(instance["name"])) return {409, Error(409, "alreadyExists", "the name")};
    }
    if (!group_.operation_failure.empty()) return {200, operation};
    for (const Json& instance : body["instances"]) {
      if (group_.shows_at_once) {
        group_.machines[instance["name"]].action = "CREATING";
      } else {
        hidden_.insert(instance["name"].get<std::string>());
      }
    }
    if (group_.settles_at_once && group_.shows_at_once) MakeAll();
    return {200, operation};
  }

  void MakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const std::string& name : hidden_) group_.machines[name].action = "CREATING";
    hidden_.clear();
    for (auto& [name, machine] : group_.machines) {
      if (machine.action != "CREATING" && machine.action != "RECREATING") continue;
      if (group_.capacity == 0) {
        machine.failure = "ZONE_RESOURCE_POOL_EXHAUSTED";
        continue;
      }
      if (group_.capacity > 0) --group_.capacity;
      machine = {.id = absl::StrCat(1000 + made_++)};
    }
  }

  Json Delete(const ServedRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Json body = Json::parse(request.body);
    for (const Json& url : body["instances"]) {
      const std::string name(absl::StripPrefix(url.get<std::string>(), "zones/z/instances/"));
      const auto machine = group_.machines.find(name);
      if (machine == group_.machines.end()) continue;
      if (machine->second.id.empty()) {
        group_.machines.erase(machine);
      } else {
        machine->second.action = "DELETING";
      }
    }
    return {{"name", "operation-delete"}, {"status", "RUNNING"}};
  }

  std::pair<int, Json> Describe(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto machine = group_.machines.find(name);
    if (machine == group_.machines.end()) return {404, Error(404, "notFound", name)};
    return {
        200,
        {{"id", machine->second.id},
         {"creationTimestamp", "2030-01-01T00:00:00.000-07:00"},
         {"networkInterfaces", Json::array({{{"networkIP", "10.0.0." + machine->second.id.substr(1)}}})}}};
  }

  mutable Mutex mutex_;
  Group group_ ABSL_GUARDED_BY(mutex_);
  // To be made, and not shown yet.
  std::set<std::string> hidden_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> requests_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> calls_ ABSL_GUARDED_BY(mutex_);
  std::string lose_ ABSL_GUARDED_BY(mutex_);
  std::string fail_ ABSL_GUARDED_BY(mutex_);
  std::string fail_reason_ ABSL_GUARDED_BY(mutex_);
  int fail_status_ ABSL_GUARDED_BY(mutex_) = 0;
  int fail_times_ ABSL_GUARDED_BY(mutex_) = 0;
  int made_ ABSL_GUARDED_BY(mutex_) = 0;
  TestServer server_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_TESTS_SERVICES_AUTOSCALER_PROVIDERS_GCP_FAKE_INSTANCE_GROUP_H_
