// Each operation of the client library once, on the cluster that it finds; ends with 1 at the first that is
// not as it should be.

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "adaptdl/client.h"

namespace {

using adaptdl::client::Client;
using adaptdl::client::Event;
using adaptdl::client::Job;
using adaptdl::client::LogLine;
using adaptdl::client::Phase;

void Expect(bool right, const std::string& what) {
  if (right) return;
  std::cerr << "operations: not so: " << what << "\n";
  std::exit(1);
}

template <typename Value>
Value Get(const absl::StatusOr<Value>& value, const std::string& what) {
  Expect(value.ok(), what + ": " + std::string(value.status().message()));
  return *value;
}

void SubmitAndWait(Client& client) {
  const Job job = Get(client.Submit({.command = {"sh", "-c", "echo out $WORD; echo err >&2; exit 0"},
                                     .name = "short",
                                     .max_replicas = 1,
                                     .max_restarts = 0,
                                     .cpus = 0.5,
                                     .env = {{"WORD", "said"}},
                                     .labels = {{"team", "vision"}}}),
                      "submit");
  Expect(job.phase == Phase::kPending && job.name_space == "default" && !job.uid.empty(), "it is submitted");
  Expect(absl::IsAlreadyExists(client.Submit({.command = {"true"}, .name = "short"}).status()),
         "its name is taken");
  Expect(Get(client.Wait("short", absl::Minutes(2)), "wait").succeeded(), "it succeeds");
  std::vector<std::string> lines;
  const absl::Status logs = client.Logs("default/short", {}, [&](const LogLine& line) {
    lines.push_back((line.error ? "2" : "1") + line.text);
    return true;
  });
  std::sort(lines.begin(), lines.end());
  Expect(logs.ok() && lines == std::vector<std::string>({"1out said", "2err"}), "its output is read");
  int seen = 0;
  const absl::Status first = client.Logs("short", {}, [&](const LogLine&) { return ++seen < 1; });
  Expect(first.ok() && seen == 1, "who has read enough is left alone");
  const auto list = Get(client.List({.phases = {Phase::kSucceeded}, .labels = {{"team", "vision"}}}), "list");
  Expect(list.size() == 1 && list.front().command.front() == "sh", "it is listed");
  Expect(Get(client.List({.labels = {{"team", "speech"}}}), "list").empty(), "others are not");
  const auto events = Get(client.Events("short"), "events");
  const auto submitted = [](const Event& event) { return event.reason == "Submitted"; };
  Expect(std::any_of(events.begin(), events.end(), submitted), "its events are told");
  const auto history = Get(client.History("short"), "history");
  Expect(!history.empty() && history.front().begin < history.back().end, "it has a history");
  for (const auto& point : Get(client.History("short", 0, history.back().end), "history")) {
    Expect(point.end > history.back().end, "what is new in it is new");
  }
  Expect(client.Delete("short").ok(), "it is deleted");
  Expect(absl::IsNotFound(client.Get("short").status()), "and gone");
}

void ChangeAndCancel(Client& client) {
  Get(client.Submit({.command = {"sleep", "1000"}, .name = "long", .max_replicas = 1}), "submit");
  Expect(absl::IsDeadlineExceeded(client.Wait("long", absl::Milliseconds(1)).status()), "it goes on");
  Expect(absl::IsFailedPrecondition(client.Delete("long")), "what runs is not deleted");
  Expect(Get(client.Update("long", {.max_replicas = 2, .priority = 7}), "update").name == "long",
         "it is changed");
  std::vector<Phase> phases;
  const Job job = Get(client.Watch(
                          "long",
                          [&](const Job& now) {
                            if (now.phase == Phase::kRunning) (void)client.Cancel("long");
                            phases.push_back(now.phase);
                            return true;
                          },
                          absl::Minutes(2)),
                      "watch");
  Expect(job.phase == Phase::kCancelled && phases.back() == Phase::kCancelled, "its end is seen");
  Expect(std::find(phases.begin(), phases.end(), Phase::kRunning) != phases.end(), "and what came before");
  Expect(client.Delete("long").ok(), "it is deleted");
}

void Refuse(Client& client) {
  Expect(absl::IsInvalidArgument(client.SubmitJobFile("kind: Pod\n", "wrong.yaml").status()), "a wrong file");
  Expect(absl::IsInvalidArgument(client.Submit({.name = "empty"}).status()), "no command");
  Expect(absl::IsNotFound(client.Wait("nobody").status()), "nobody to wait for");
  Expect(absl::IsNotFound(client.Logs("nobody", {.follow = true}, [](const LogLine&) { return true; })),
         "nobody to hear");
}

}  // namespace

int main() {
  const auto client = Client::Open();
  Expect(client.ok(), std::string(client.status().message()));
  SubmitAndWait(**client);
  ChangeAndCancel(**client);
  Refuse(**client);
  std::cout << "all operations are fine\n";
}
