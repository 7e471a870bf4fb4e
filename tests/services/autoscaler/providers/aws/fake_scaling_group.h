// An Auto Scaling group as far as the provider sees it, and EC2 with its machines, served over HTTP. It makes its size true at once, or
// when a test says so; has no capacity, loses answers, refuses and takes machines back as a test likes.

#ifndef ADAPTDL_TESTS_SERVICES_AUTOSCALER_PROVIDERS_AWS_FAKE_SCALING_GROUP_H_
#define ADAPTDL_TESTS_SERVICES_AUTOSCALER_PROVIDERS_AWS_FAKE_SCALING_GROUP_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/manual_clock.h"
#include "libs/base/mutex.h"
#include "tests/libs/http/test_server.h"

namespace adaptdl::autoscaler {

// Thread-safe. It has one group, "workers".
class FakeScalingGroup {
 public:
  struct Machine {
    std::string lifecycle = "InService";
    std::string state = "running";
    std::string reason = {};
    bool is_protected = true;
  };
  struct Group {
    int min_size = 0;
    int max_size = 10;
    int desired = 0;
    bool protects_new = true;
    std::string status = {};
    std::map<std::string, Machine> machines = {};
    // How many machines can be had. Negative: as many as anybody likes.
    int capacity = -1;
    // Whether it makes its size true at once.
    bool settles_at_once = true;
  };

  // The clock outlives it.
  explicit FakeScalingGroup(const ManualClock* clock)
      : clock_(*clock), server_([this](Exchange& exchange) { Serve(exchange); }) {}

  std::string url() const { return server_.url(); }

  Group group() const {
    MutexLock lock(&mutex_);
    return group_;
  }
  // What a test, or a person, changes.
  void Change(const std::function<void(Group&)>& change) {
    MutexLock lock(&mutex_);
    change(group_);
  }
  // Makes the size true.
  void Settle() {
    MutexLock lock(&mutex_);
    MakeTrue();
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
  // Machines that the group holds.
  int living() const {
    MutexLock lock(&mutex_);
    return Held();
  }
  int calls(const std::string& action) const {
    MutexLock lock(&mutex_);
    const auto found = calls_.find(action);
    return found == calls_.end() ? 0 : found->second;
  }

 private:
  void Serve(Exchange& exchange) {
    // The form is read as a query.
    ServedRequest form;
    form.target = "/?" + exchange.request().body;
    const std::string action = form.Argument("Action");
    std::string answer;
    {
      MutexLock lock(&mutex_);
      ++calls_[action];
      if (action == fail_.first && fail_times_ > 0) {
        --fail_times_;
        return exchange.Answer(fail_.second == "Throttling" ? 503 : 400,
                               Error(fail_.second, "says the test"));
      }
      answer = action == "DescribeAutoScalingGroups"             ? DescribeGroup(form)
               : action == "DescribeScalingActivities"           ? DescribeActivities()
               : action == "SetDesiredCapacity"                  ? SetDesired(form)
               : action == "TerminateInstanceInAutoScalingGroup" ? Terminate(form)
               : action == "DescribeInstances"                   ? DescribeMachines(form)
                                                                 : Error("InvalidAction", action);
      if (action == lose_) {
        lose_.clear();
        return exchange.Cut();
      }
    }
    exchange.Answer(answer.find("<ErrorResponse>") == std::string::npos ? 200 : 400, answer);
  }

  static std::string Error(const std::string& code, const std::string& message) {
    return absl::StrCat("<ErrorResponse><Error><Type>Sender</Type><Code>", code, "</Code><Message>", message,
                        "</Message></Error></ErrorResponse>");
  }

  // Those that count for its size.
  int Held() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int held = 0;
    for (const auto& [id, machine] : group_.machines)
      held += machine.lifecycle == "InService" || machine.lifecycle == "Pending";
    return held;
  }

  void MakeTrue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (Held() < group_.desired && group_.capacity != 0) {
      if (group_.capacity > 0) --group_.capacity;
      const std::string id = absl::StrCat("i-", made_++);
      group_.machines[id].is_protected = group_.protects_new;
      AddActivity("Successful", "");
    }
    if (Held() < group_.desired)
      AddActivity("Failed",
                  "We currently do not have sufficient g5.xlarge capacity (InsufficientInstanceCapacity)");
    for (auto& [id, machine] : group_.machines) {
      if (Held() <= group_.desired) break;
      if (!machine.is_protected && machine.lifecycle == "InService") End(&machine);
    }
  }

  static void End(Machine* machine) {
    machine->lifecycle = "Terminating";
    machine->state = "shutting-down";
    machine->reason = "Client.UserInitiatedShutdown";
  }

  void AddActivity(const std::string& status, const std::string& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::string start = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", clock_.Now(), absl::UTCTimeZone());
    activities_.insert(
        activities_.begin(),
        absl::StrCat("<member><Description>Launching a new EC2 instance</Description><StartTime>", start,
                     "</StartTime><StatusCode>", status, "</StatusCode><StatusMessage>", message,
                     "</StatusMessage></member>"));
  }

  std::string DescribeGroup(const ServedRequest& form) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::string answer =
        "<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups>";
    if (form.Argument("AutoScalingGroupNames.member.1") == "workers") {
      absl::StrAppend(&answer, "<member><AutoScalingGroupName>workers</AutoScalingGroupName><MinSize>",
                      group_.min_size, "</MinSize><MaxSize>", group_.max_size, "</MaxSize><DesiredCapacity>",
                      group_.desired, "</DesiredCapacity><NewInstancesProtectedFromScaleIn>",
                      group_.protects_new ? "true" : "false", "</NewInstancesProtectedFromScaleIn>");
      if (!group_.status.empty()) absl::StrAppend(&answer, "<Status>", group_.status, "</Status>");
      answer += "<Instances>";
      for (const auto& [id, machine] : group_.machines) {
        absl::StrAppend(&answer, "<member><InstanceId>", id, "</InstanceId><LifecycleState>",
                        machine.lifecycle, "</LifecycleState><ProtectedFromScaleIn>",
                        machine.is_protected ? "true" : "false", "</ProtectedFromScaleIn></member>");
      }
      answer += "</Instances></member>";
    }
    return answer +
           "</AutoScalingGroups></DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>";
  }

  std::string DescribeActivities() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::string answer = "<DescribeScalingActivitiesResponse><DescribeScalingActivitiesResult><Activities>";
    for (const std::string& activity : activities_) answer += activity;
    return answer + "</Activities></DescribeScalingActivitiesResult></DescribeScalingActivitiesResponse>";
  }

  std::string SetDesired(const ServedRequest& form) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int desired = 0;
    if (!absl::SimpleAtoi(form.Argument("DesiredCapacity"), &desired) || desired < group_.min_size ||
        desired > group_.max_size || form.Argument("HonorCooldown") != "false")
      return Error("ValidationError", "New SetDesiredCapacity value is out of bounds");
    group_.desired = desired;
    if (group_.settles_at_once) MakeTrue();
    return "<SetDesiredCapacityResponse/>";
  }

  std::string Terminate(const ServedRequest& form) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto machine = group_.machines.find(form.Argument("InstanceId"));
    if (machine == group_.machines.end() || form.Argument("ShouldDecrementDesiredCapacity") != "true")
      return Error("ValidationError", "Instance Id not found");
    if (group_.desired <= group_.min_size) return Error("ValidationError", "desiredSize equals minSize");
    // A second time, too: whoever calls twice is one machine short.
    --group_.desired;
    End(&machine->second);
    return "<TerminateInstanceInAutoScalingGroupResponse/>";
  }

  std::string DescribeMachines(const ServedRequest& form) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::string answer = "<DescribeInstancesResponse><reservationSet>";
    if (form.Argument("Filter.1.Name") == "tag:aws:autoscaling:groupName" &&
        form.Argument("Filter.1.Value.1") == "workers") {
      for (const auto& [id, machine] : group_.machines) {
        absl::StrAppend(&answer, "<item><instancesSet><item><instanceId>", id,
                        "</instanceId><instanceState><name>", machine.state,
                        "</name></instanceState><privateIpAddress>10.0.0.7</privateIpAddress>",
                        "<launchTime>2030-01-01T00:00:00.000Z</launchTime>");
        if (!machine.reason.empty())
          absl::StrAppend(&answer, "<stateReason><code>", machine.reason,
                          "</code><message>m</message></stateReason>");
        answer += "</item></instancesSet></item>";
      }
    }
    return answer + "</reservationSet></DescribeInstancesResponse>";
  }

  const ManualClock& clock_;
  mutable Mutex mutex_;
  Group group_ ABSL_GUARDED_BY(mutex_);
  // The newest first.
  std::vector<std::string> activities_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> calls_ ABSL_GUARDED_BY(mutex_);
  std::string lose_ ABSL_GUARDED_BY(mutex_);
  std::pair<std::string, std::string> fail_ ABSL_GUARDED_BY(mutex_);
  int fail_times_ ABSL_GUARDED_BY(mutex_) = 0;
  int made_ ABSL_GUARDED_BY(mutex_) = 0;
  TestServer server_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_TESTS_SERVICES_AUTOSCALER_PROVIDERS_AWS_FAKE_SCALING_GROUP_H_
