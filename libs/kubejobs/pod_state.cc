#include "libs/kubejobs/pod_state.h"

#include <csignal>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/base/last_words.h"
#include "libs/base/utf8.h"
#include "libs/kube/json/object.h"
#include "libs/kubejobs/names.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::kubejobs {
namespace {

using kube::At;
using kube::IntegerAt;
using kube::Json;
using kube::TextAt;

constexpr size_t kLongestMessage = 1024;
// Programs of AdaptDL say by it that they have stopped when they were told to, and were not killed.
constexpr int kStopped = 143;
constexpr int kMostSignals = 64;

// Why a kubelet did not take a pod (status.reason). What it did take ended otherwise.
constexpr const char* kNotAdmitted[] = {
    "UnexpectedAdmissionError", "NodeAffinity",    "NodeName",       "NodePorts",
    "TopologyAffinityError",    "InvalidNodeInfo", "TaintToleration"};
// Why one was stopped for the node's or others' sake.
constexpr const char* kStoppedFor[] = {"Evicted",    "NodeLost",   "NodeShutdown", "Shutdown",
                                       "Preempting", "Terminated", "Preempted"};

template <size_t kSize>
bool IsOneOf(const std::string& text, const char* const (&list)[kSize]) {
  for (const char* known : list) {
    if (text == known) return true;
  }
  return false;
}

bool IsTrue(const Json& pod, absl::string_view type) {
  const Json& conditions = At(pod, {"status", "conditions"});
  if (!conditions.is_array()) return false;
  for (const Json& condition : conditions) {
    if (TextAt(condition, {"type"}) == type) return TextAt(condition, {"status"}) == "True";
  }
  return false;
}

// Of a list of container statuses, the state of the one of this name. Null: it has none.
const Json& StateOf(const Json& statuses, const std::string& name) {
  static const Json* const none = new Json();
  if (!statuses.is_array()) return *none;
  for (const Json& status : statuses) {
    if (TextAt(status, {"name"}) == name) return At(status, {"state"});
  }
  return *none;
}

// How the first init container ended that has failed. Null: none has.
const Json& FailedInit(const Json& pod, std::string* name) {
  static const Json* const none = new Json();
  const Json& statuses = At(pod, {"status", "initContainerStatuses"});
  if (!statuses.is_array()) return *none;
  for (const Json& status : statuses) {
    const Json& ended = At(status, {"state", "terminated"});
    if (!ended.is_object() || IntegerAt(ended, {"exitCode"}) == 0) continue;
    *name = TextAt(status, {"name"});
    return ended;
  }
  return *none;
}

void SetTime(const Json& time, google::protobuf::Timestamp* out, bool* is_set) {
  const absl::StatusOr<absl::Time> parsed =
      kube::TimeFromText(time.is_string() ? time.get<std::string>() : "");
  *is_set = parsed.ok();
  if (parsed.ok()) *out = messages::ToProto(*parsed);
}

void SetStart(const Json& state, v1::Replica* replica) {
  bool is_set = false;
  SetTime(At(state, {"startedAt"}), replica->mutable_start_time(), &is_set);
  if (!is_set) replica->clear_start_time();
}

void SetEnd(const Json& state, v1::Replica* replica) {
  bool is_set = false;
  SetTime(At(state, {"finishedAt"}), replica->mutable_end_time(), &is_set);
  if (!is_set) replica->clear_end_time();
}

// "OOMKilled: some text", or either.
std::string Words(const std::string& reason, const std::string& message) {
  const bool both = !reason.empty() && !message.empty();
  return ToUtf8(absl::StrCat(reason, both ? ": " : "", message), kLongestMessage);
}

// Whether a pod was evicted because it used more of the disk than it may; else its node was short of something.
bool WentOverItsDisk(const std::string& reason, const std::string& message) {
  return reason == "Evicted" && !absl::StartsWith(message, "The node ") &&
         absl::StrContains(message, "exceed");
}

// What the pod as a whole says of whose fault its end is.
v1::EndCause CauseOfPod(const Json& pod) {
  const std::string reason = TextAt(pod, {"status", "reason"});
  if (reason == "DeadlineExceeded") return v1::END_CAUSE_JOB;
  if (WentOverItsDisk(reason, TextAt(pod, {"status", "message"}))) return v1::END_CAUSE_JOB;
  // "OutOfcpu", "OutOfpods"; of old kubelets "Outof...".
  if (absl::StartsWithIgnoreCase(reason, "OutOf") || IsOneOf(reason, kNotAdmitted)) return v1::END_CAUSE_NODE;
  const bool stopped = IsOneOf(reason, kStoppedFor) || IsTrue(pod, "DisruptionTarget");
  return stopped || kube::IsBeingDeleted(pod) ? v1::END_CAUSE_PREEMPTION : v1::END_CAUSE_UNSPECIFIED;
}

void SetExit(const Json& ended, v1::Replica* replica) {
  const int64_t code = IntegerAt(ended, {"exitCode"});
  const int64_t signal = IntegerAt(ended, {"signal"});
  replica->set_state(v1::REPLICA_STATE_EXITED);
  if (signal > 0 && signal <= kMostSignals) {
    replica->set_signal(static_cast<int>(signal));
  } else if (code > 128 && code <= 128 + kMostSignals && code != kStopped) {
    replica->set_signal(static_cast<int>(code - 128));
  } else {
    replica->set_exit_code(static_cast<int>(code & 255));
  }
}

void SetLost(v1::EndCause cause, v1::Replica* replica) {
  replica->set_state(v1::REPLICA_STATE_LOST);
  replica->set_end_cause(cause);
}

// Of a container that ended by itself: what the pod says, or else what the container has left as its termination
// message, which is the end of its log where the job's template says FallbackToLogsOnError.
std::string WordsOfProgram(const Json& pod, const Json& ended) {
  std::string words = Words(TextAt(pod, {"status", "reason"}), TextAt(pod, {"status", "message"}));
  if (!words.empty()) return words;
  words = LastWords(TextAt(ended, {"message"}));
  return words.empty() ? "" : absl::StrCat("its last words: ", words);
}

// A container that has ended.
void SetEnded(const Json& pod, const Json& ended, v1::Replica* replica) {
  const std::string reason = TextAt(ended, {"reason"});
  const v1::EndCause cause = CauseOfPod(pod);
  SetStart(ended, replica);
  SetEnd(ended, replica);
  replica->set_message(reason == "Completed" || reason == "Error"
                           ? WordsOfProgram(pod, ended)
                           : Words(reason, TextAt(ended, {"message"})));
  if (reason == "StartError" || reason == "ContainerCannotRun") {
    SetLost(v1::END_CAUSE_IMAGE, replica);
  } else if (reason == "ContainerStatusUnknown") {
    SetLost(cause == v1::END_CAUSE_UNSPECIFIED ? v1::END_CAUSE_NODE : cause, replica);
  } else {
    SetExit(ended, replica);
    replica->set_end_cause(reason == "OOMKilled" ? v1::END_CAUSE_JOB : cause);
  }
}

// A pod whose main container never ran, and never will.
void SetNeverRan(const Json& pod, v1::Replica* replica) {
  std::string init;
  const Json& ended = FailedInit(pod, &init);
  if (ended.is_object()) {
    SetEnded(pod, ended, replica);
    replica->set_message(
        ToUtf8(absl::StrCat("init container ", init, " failed. ", replica->message()), kLongestMessage));
    return;
  }
  SetLost(CauseOfPod(pod), replica);
  const std::string words = Words(TextAt(pod, {"status", "reason"}), TextAt(pod, {"status", "message"}));
  replica->set_message(words.empty() ? "its pod ended before its container ran" : words);
}

void SetState(const Json& pod, v1::Replica* replica) {
  const std::string phase = TextAt(pod, {"status", "phase"});
  const Json& state = StateOf(At(pod, {"status", "containerStatuses"}), MainContainer(pod));
  const Json& ended = At(state, {"terminated"});
  const Json& running = At(state, {"running"});
  if (ended.is_object()) {
    SetEnded(pod, ended, replica);
  } else if (phase == "Succeeded") {
    replica->set_state(v1::REPLICA_STATE_EXITED);
  } else if (phase == "Failed") {
    SetNeverRan(pod, replica);
  } else if (running.is_object()) {
    replica->set_state(v1::REPLICA_STATE_RUNNING);
    SetStart(running, replica);
  } else if (kube::IsBeingDeleted(pod) && TextAt(pod, {"spec", "nodeName"}).empty()) {
    // No kubelet will ever say more of it.
    SetLost(v1::END_CAUSE_PREEMPTION, replica);
    replica->set_message("its pod was deleted before it came to a node");
  } else {
    replica->set_state(v1::REPLICA_STATE_LAUNCHING);
  }
}

template <typename Number>
Number NumberOf(const Json& pod, const char* annotation) {
  Number number = 0;
  return absl::SimpleAtoi(kube::AnnotationOf(pod, annotation), &number) && number >= 0 ? number : 0;
}

}  // namespace

std::string MainContainer(const Json& pod) {
  const Json& containers = At(pod, {"spec", "containers"});
  if (!containers.is_array() || containers.empty()) return "";
  const std::string named = kube::AnnotationOf(pod, kMainContainerAnnotation);
  for (const Json& container : containers) {
    if (!named.empty() && TextAt(container, {"name"}) == named) return named;
  }
  return TextAt(containers[0], {"name"});
}

std::optional<v1::ReplicaReport> ReportOf(const Json& pod) {
  const kube::Owner owner = kube::ControllerOf(pod);
  if (owner.kind != kJobKind || owner.uid.empty()) return std::nullopt;
  if (kube::LabelOf(pod, kReplicaLabel) != "true") return std::nullopt;
  const kube::ObjectKey key = kube::KeyOf(pod);
  v1::ReplicaReport report;
  report.set_namespace_(key.name_space);
  report.set_job(owner.name);
  report.set_job_uid(owner.uid);
  v1::Replica* replica = report.mutable_replica();
  replica->set_replica_id(key.name);
  replica->set_group(NumberOf<int64_t>(pod, kGroupAnnotation));
  replica->set_rank(NumberOf<int32_t>(pod, kRankAnnotation));
  const std::string node = kube::AnnotationOf(pod, kNodeAnnotation);
  replica->set_node_id(node.empty() ? TextAt(pod, {"spec", "nodeName"}) : node);
  SetState(pod, replica);
  return report;
}

}  // namespace adaptdl::kubejobs
