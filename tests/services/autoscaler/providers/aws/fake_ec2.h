// EC2 as far as the provider sees it, served over HTTP: machines, tags, launch templates, fleets with their tokens. It shows new
// machines late, loses answers, refuses and takes machines back as a test likes.

#ifndef ADAPTDL_TESTS_SERVICES_AUTOSCALER_PROVIDERS_AWS_FAKE_EC2_H_
#define ADAPTDL_TESTS_SERVICES_AUTOSCALER_PROVIDERS_AWS_FAKE_EC2_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "libs/base/mutex.h"
#include "tests/libs/http/test_server.h"

namespace adaptdl::autoscaler {

// Thread-safe.
class FakeEc2 {
 public:
  struct Machine {
    std::string state = "running";
    std::string reason = {};
    std::string token = {};
    std::map<std::string, std::string> tags = {};
    bool shown = true;
  };

  FakeEc2() : server_([this](Exchange& exchange) { Serve(exchange); }) {}

  std::string url() const { return server_.url(); }

  // How many machines can be had. Negative: as many as anybody likes.
  void SetCapacity(int machines) {
    MutexLock lock(&mutex_);
    capacity_ = machines;
  }
  // Whether machines that are made from now on can be seen at once.
  void SetShowsAtOnce(bool shows) {
    MutexLock lock(&mutex_);
    shows_at_once_ = shows;
  }
  void ShowAll() {
    MutexLock lock(&mutex_);
    for (auto& [id, machine] : machines_) machine.shown = true;
  }
  // The next call of this action is carried out, and its answer lost; or it fails with this code and is not carried out.
  void LoseNext(const std::string& action) {
    MutexLock lock(&mutex_);
    lose_ = action;
  }
  void FailNext(const std::string& action, const std::string& code, int times = 1) {
    MutexLock lock(&mutex_);
    fail_ = {action, code};
    fail_times_ = times;
  }
  void Set(const std::string& id, const std::string& state, const std::string& reason = "") {
    MutexLock lock(&mutex_);
    machines_[id].state = state;
    machines_[id].reason = reason;
  }

  std::map<std::string, Machine> machines() const {
    MutexLock lock(&mutex_);
    return machines_;
  }
  int living() const {
    MutexLock lock(&mutex_);
    int count = 0;
    for (const auto& [id, machine] : machines_)
      count += machine.state == "running" || machine.state == "pending";
    return count;
  }
  // Names of the actions that were called, in order.
  std::vector<std::string> actions() const {
    MutexLock lock(&mutex_);
    return actions_;
  }
  std::map<std::string, std::string> last(const std::string& action) const {
    MutexLock lock(&mutex_);
    const auto found = last_.find(action);
    return found == last_.end() ? std::map<std::string, std::string>() : found->second;
  }

 private:
  using Form = std::map<std::string, std::string>;

  static std::string Decode(absl::string_view text) {
    std::string decoded;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '%' && i + 2 < text.size()) {
        decoded += absl::HexStringToBytes(text.substr(i + 1, 2));
        i += 2;
      } else {
        decoded += text[i] == '+' ? ' ' : text[i];
      }
    }
    return decoded;
  }

  void Serve(Exchange& exchange) {
    Form form;
    for (const absl::string_view pair : absl::StrSplit(exchange.request().body, '&')) {
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(pair, absl::MaxSplits('=', 1));
      form[Decode(parts.first)] = Decode(parts.second);
    }
    std::string answer;
    {
      MutexLock lock(&mutex_);
      const std::string action = form["Action"];
      actions_.push_back(action);
      last_[action] = form;
      if (action == fail_.first && fail_times_ > 0) {
        --fail_times_;
        return exchange.Answer(fail_.second == "RequestLimitExceeded" ? 503 : 400, Error(fail_.second));
      }
      answer = action == "CreateFleet"            ? CreateFleet(form)
               : action == "DescribeInstances"    ? Describe(form)
               : action == "TerminateInstances"   ? Terminate(form)
               : action == "CreateLaunchTemplate" ? MakeTemplate(form)
                                                  : "";
      if (action == lose_) {
        lose_.clear();
        return exchange.Cut();
      }
    }
    if (answer.empty()) return exchange.Answer(400, Error("InvalidAction"));
    exchange.Answer(answer.find("<Errors>") == std::string::npos ? 200 : 400, answer);
  }

  static std::string Error(const std::string& code) {
    return absl::StrCat("<Response><Errors><Error><Code>", code,
                        "</Code><Message>says the test</Message></Error></Errors></Response>");
  }

  std::string CreateFleet(Form& form) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::string token = form["ClientToken"];
    std::vector<std::string> ids;
    bool is_new = true;
    for (const auto& [id, machine] : machines_) {
      if (machine.token != token) continue;
      is_new = false;
      ids.push_back(id);
    }
    int wanted = 0;
    (void)absl::SimpleAtoi(form["TargetCapacitySpecification.TotalTargetCapacity"], &wanted);
    while (is_new && static_cast<int>(ids.size()) < wanted && capacity_ != 0) {
      if (capacity_ > 0) --capacity_;
      Machine machine;
      machine.token = token;
      machine.shown = shows_at_once_;
      for (int k = 1; form.count(absl::StrCat("TagSpecification.2.Tag.", k, ".Key")) > 0; ++k) {
        machine.tags[form[absl::StrCat("TagSpecification.2.Tag.", k, ".Key")]] =
            form[absl::StrCat("TagSpecification.2.Tag.", k, ".Value")];
      }
      ids.push_back(absl::StrCat("i-", made_++));
      machines_[ids.back()] = machine;
    }
    std::string answer = "<CreateFleetResponse><fleetId>fleet-1</fleetId><errorSet>";
    if (static_cast<int>(ids.size()) < wanted) {
      answer +=
          "<item><errorCode>InsufficientInstanceCapacity</errorCode><errorMessage>none is "
          "left</errorMessage></item>";
    }
    answer += "</errorSet><fleetInstanceSet><item><instanceIds>";
    for (const std::string& id : ids) absl::StrAppend(&answer, "<item>", id, "</item>");
    return answer + "</instanceIds></item></fleetInstanceSet></CreateFleetResponse>";
  }

  std::string Describe(Form& form) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::string answer = "<DescribeInstancesResponse><reservationSet>";
    for (const auto& [id, machine] : machines_) {
      bool fits = machine.shown;
      for (int k = 1; form.count(absl::StrCat("Filter.", k, ".Name")) > 0; ++k) {
        const auto tag = machine.tags.find(form[absl::StrCat("Filter.", k, ".Name")].substr(4));
        fits =
            fits && tag != machine.tags.end() && tag->second == form[absl::StrCat("Filter.", k, ".Value.1")];
      }
      if (!fits) continue;
      absl::StrAppend(&answer, "<item><instancesSet><item><instanceId>", id,
                      "</instanceId><instanceState><name>", machine.state,
                      "</name></instanceState><privateIpAddress>10.0.0.7</privateIpAddress>",
                      "<launchTime>2030-01-01T00:00:00.000Z</launchTime>");
      if (!machine.reason.empty())
        absl::StrAppend(&answer, "<stateReason><code>", machine.reason,
                        "</code><message>m</message></stateReason>");
      answer += "<tagSet>";
      for (const auto& [key, value] : machine.tags)
        absl::StrAppend(&answer, "<item><key>", key, "</key><value>", value, "</value></item>");
      answer += "</tagSet></item></instancesSet></item>";
    }
    return answer + "</reservationSet></DescribeInstancesResponse>";
  }

  std::string Terminate(Form& form) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto machine = machines_.find(form["InstanceId.1"]);
    if (machine == machines_.end() || !machine->second.shown) return Error("InvalidInstanceID.NotFound");
    machine->second.state = "terminated";
    return "<TerminateInstancesResponse/>";
  }

  std::string MakeTemplate(Form& form) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!templates_.insert(form["LaunchTemplateName"]).second)
      return Error("InvalidLaunchTemplateName.AlreadyExistsException");
    return "<CreateLaunchTemplateResponse/>";
  }

  mutable Mutex mutex_;
  std::map<std::string, Machine> machines_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> templates_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> actions_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Form> last_ ABSL_GUARDED_BY(mutex_);
  std::string lose_ ABSL_GUARDED_BY(mutex_);
  std::pair<std::string, std::string> fail_ ABSL_GUARDED_BY(mutex_);
  int fail_times_ ABSL_GUARDED_BY(mutex_) = 0;
  int capacity_ ABSL_GUARDED_BY(mutex_) = -1;
  int made_ ABSL_GUARDED_BY(mutex_) = 0;
  bool shows_at_once_ ABSL_GUARDED_BY(mutex_) = true;
  TestServer server_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_TESTS_SERVICES_AUTOSCALER_PROVIDERS_AWS_FAKE_EC2_H_
