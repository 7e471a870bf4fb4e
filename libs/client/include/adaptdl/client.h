// Jobs from C++: submit, follow, wait, read logs and cancel, over the cluster's public gRPC interface.
//
//   auto client = adaptdl::client::Client::Open();
//   if (!client.ok()) ...
//   auto job = (*client)->Submit({.command = {"sh", "-c", "echo hello"}, .name = "hello"});
//   job = (*client)->Wait("hello", absl::Minutes(2));
//
// Jobs are named "name", in the settings' namespace, or "namespace/name". Each call has a deadline, the
// settings' call_timeout, but for Watch(), Wait() and Logs(). A call that did not reach the supervisor is
// repeated, with several supervisors at each of them; one that changes something carries an id, by which it
// happens once however often it is repeated. Errors are statuses with the supervisor's text; NOT_FOUND: there
// is no such job.
//
// Values are copies. Of what callers fill in each member may be left out, without warnings of the compiler.
// Times are wall times; absl::InfinitePast() where there is none.
//
// Thread-safe.

#ifndef ADAPTDL_CLIENT_H_
#define ADAPTDL_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#define ADAPTDL_CLIENT_PUBLIC __attribute__((visibility("default")))

namespace adaptdl::client {

// Which cluster, and as whom. What is empty is found as the command adaptdl finds it: in the environment,
// else in what "adaptdl cluster up" has noted.
struct Settings {
  // "host:port", or several, separated by commas. ADAPTDL_SUPERVISOR_ADDRESS.
  std::string supervisor = {};
  // PEM file of the authorities that are trusted. ADAPTDL_CA_FILE.
  std::string ca_file = {};
  // ADAPTDL_TOKEN.
  std::string token = {};
  // A file with nothing but the token; not read if there is one above. ADAPTDL_TOKEN_FILE.
  std::string token_file = {};
  // That the server's certificate must have. ADAPTDL_TLS_SERVER_NAME.
  std::string tls_server_name = {};
  // No TLS and no token. ADAPTDL_INSECURE=1.
  bool insecure = false;
  // Of jobs that are named without one.
  std::string name_space = "default";
  // Of each call, with its repetitions.
  absl::Duration call_timeout = absl::Seconds(10);
};

// As the supervisor names them. kUnknown: one of a newer supervisor.
enum class Phase {
  kUnknown,
  kPending,
  kStarting,
  kRunning,
  kRescaling,
  kStopping,
  kSucceeded,
  kFailed,
  kCancelled
};

// "PENDING", "STARTING", ...
ADAPTDL_CLIENT_PUBLIC std::string_view NameOf(Phase phase);
// Whether a job stays in it.
ADAPTDL_CLIENT_PUBLIC bool IsFinished(Phase phase);

// What a program reports of itself.
struct Metric {
  double value = 0;
  // Optimiser steps that were done when it was reported.
  int64_t step = 0;
};

// How far a job is. 0: unknown, where it can't be 0.
struct Progress {
  int epoch = 0;
  int total_epochs = 0;
  int64_t optimizer_steps = 0;
  // In [0, 1]; negative: unknown.
  double fraction = -1;
  // Samples per second.
  double throughput = 0;
  double efficiency = 0;
  double gradient_noise_scale = 0;
  int64_t batch_size = 0;
  int64_t local_batch_size = 0;
  int accumulation_steps = 0;
  // By name: "loss" is what is minimised.
  std::map<std::string, Metric> metrics;
};

// A job as it was when the supervisor answered.
struct Job {
  std::string name_space;
  std::string name;
  std::string uid;
  std::map<std::string, std::string> labels;
  // With its arguments.
  std::vector<std::string> command;
  Phase phase = Phase::kUnknown;
  // Why it is in this phase: a word for programs, and the same for people.
  std::string reason;
  std::string message;
  // Node of each replica, by rank; and where it is being moved to.
  std::vector<std::string> allocation;
  std::vector<std::string> desired_allocation;
  // Why it has the replicas that it has. Empty: the allocator has not decided yet.
  std::string allocation_reason;
  int64_t group = 0;
  int restarts = 0;
  int rescales = 0;
  int failures = 0;
  std::optional<Progress> progress;
  absl::Time submit_time = absl::InfinitePast();
  absl::Time start_time = absl::InfinitePast();
  absl::Time completion_time = absl::InfinitePast();
  // With all replicas running.
  absl::Duration running_time;

  bool finished() const { return IsFinished(phase); }
  bool succeeded() const { return phase == Phase::kSucceeded; }
};

// A job whose replicas run a command. What is left out has the defaults of job files.
struct JobOrder {
  std::vector<std::string> command = {};
  // Empty: the system makes one up that begins with generate_name.
  std::string name = {};
  std::string generate_name = "job-";
  // Empty: the settings'.
  std::string name_space = {};
  int min_replicas = 0;
  int max_replicas = 0;
  std::vector<int> allowed_replicas = {};
  int priority = 0;
  std::optional<int> max_restarts = {};
  bool preemptible = true;
  // Of each replica.
  double cpus = 0;
  int64_t memory_bytes = 0;
  int gpus = 0;
  std::map<std::string, std::string> env = {};
  std::map<std::string, std::string> labels = {};
  std::string working_directory = {};
};

// What Update() changes; what is absent stays.
struct Changes {
  std::optional<int> min_replicas = {};
  std::optional<int> max_replicas = {};
  std::optional<int> priority = {};
  // Whether the job is held: it gives up its replicas, and gets none until it no longer is.
  std::optional<bool> suspend = {};
};

// Which jobs: all that are in one of the phases (none: any) and carry the labels.
struct Selection {
  // Empty: the settings'. "*": all.
  std::string name_space = {};
  std::vector<Phase> phases = {};
  std::map<std::string, std::string> labels = {};
};

// Something that happened to a job.
struct Event {
  int64_t id = 0;
  absl::Time time = absl::InfinitePast();
  std::string job;
  bool warning = false;
  std::string reason;
  std::string message;
  // Times that it happened.
  int64_t count = 1;
  int64_t group = 0;
  std::string node;
  std::string replica_id;
};

// What a job was like in a span of time: means over it, and counts at its end. 0: unknown, where it can't be
// 0.
struct HistoryPoint {
  absl::Time begin = absl::InfinitePast();
  absl::Time end = absl::InfinitePast();
  double replicas = 0;
  double batch_size = 0;
  // Samples per second, and the same times the efficiency.
  double throughput = 0;
  double goodput = 0;
  double efficiency = 0;
  double gradient_noise_scale = 0;
  int64_t optimizer_steps = 0;
  // In [0, 1]; negative: unknown.
  double fraction = -1;
  int epoch = 0;
  // Of those that were reported in the span.
  std::map<std::string, Metric> metrics;
};

struct LogOptions {
  // On until the job has finished; else what is there now.
  bool follow = false;
  std::optional<int> rank = {};
  // 0: all groups.
  int64_t group = 0;
  // Only the last so many of each replica. 0: all.
  int tail_lines = 0;
  // Only lines written then or later, by the nodes' clocks.
  absl::Time since = absl::InfinitePast();
  // Only lines in which this regular expression of RE2's occurs. Empty: all.
  std::string pattern = {};
};

// One line that a replica wrote, or a part of a very long one.
struct LogLine {
  absl::Time time = absl::InfinitePast();
  // To standard error.
  bool error = false;
  // What can't be read, since its node is gone, say: `text` says so, and nothing else is set.
  bool warning = false;
  std::string replica_id;
  int64_t group = 0;
  int rank = 0;
  // Without the line feed. Bytes as written: not necessarily UTF-8.
  std::string text;
  // Whether the line goes on in the next part.
  bool partial = false;
};

class ADAPTDL_CLIENT_PUBLIC Client {
 public:
  // Does not connect yet: the first call does. INVALID_ARGUMENT: what the settings lack, or which file can't
  // be used.
  static absl::StatusOr<std::unique_ptr<Client>> Open(Settings settings = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  absl::StatusOr<Job> Submit(const JobOrder& order);
  // What a job file holds (docs/job-file.md), of at most a mebibyte. The file's namespace wins over the
  // settings'. `file_name` stands in errors, and in `warnings`, which unless it is null gets the fields that
  // have no effect.
  absl::StatusOr<Job> SubmitJobFile(std::string_view text, std::string_view file_name = "job file",
                                    std::vector<std::string>* warnings = nullptr);

  absl::StatusOr<Job> Get(std::string_view job);
  // In order of submission.
  absl::StatusOr<std::vector<Job>> List(const Selection& selection = {});
  absl::StatusOr<Job> Update(std::string_view job, const Changes& changes);
  // Asks it to stop for good; Wait() waits for that.
  absl::StatusOr<Job> Cancel(std::string_view job);
  // Removes a finished job with its events, logs and files.
  absl::Status Delete(std::string_view job);

  // What happened to the job, in order.
  absl::StatusOr<std::vector<Event>> Events(std::string_view job);
  // How the job has come to be as it is, in order of time: at most so many points (0: 500; at most 2000), of
  // those that end after `after`.
  absl::StatusOr<std::vector<HistoryPoint>> History(std::string_view job, int max_points = 0,
                                                    absl::Time after = absl::InfinitePast());

  // Calls `on_change` with the job as it is and as it becomes until it has finished, then too, or until it
  // returns false. Returns what it was called with last. Outages of a minute are sat out. DEADLINE_EXCEEDED:
  // after `timeout` it has not finished; it goes on.
  absl::StatusOr<Job> Watch(std::string_view job, const std::function<bool(const Job&)>& on_change,
                            absl::Duration timeout = absl::InfiniteDuration());
  // The job when it has finished.
  absl::StatusOr<Job> Wait(std::string_view job, absl::Duration timeout = absl::InfiniteDuration());
  // Calls `on_line` for each line, each once, until there are no more or it returns false.
  absl::Status Logs(std::string_view job, const LogOptions& options,
                    const std::function<bool(const LogLine&)>& on_line);

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl::client

#endif  // ADAPTDL_CLIENT_H_
