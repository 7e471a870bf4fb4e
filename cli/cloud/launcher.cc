#include "cli/cloud/launcher.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/cloud/head_script.h"
#include "libs/aws/signature.h"

namespace adaptdl::cli {
namespace {

// Machines that a call has made which was under way when the head ended are seen late: so many looks in a row see none.
constexpr int kLooksWithoutMachines = 3;

// EC2 makes one machine for one token; another key is another launch.
std::string TokenOf(const ClusterFile& cluster, const RecipientKey& key) {
  return aws::Sha256Hex(absl::StrCat(cluster.name, "\n", key.certificate)).substr(0, 32);
}

}  // namespace

absl::Status Launcher::Pause(absl::Time deadline, const std::string& what) {
  if (parts_.clock->Steady() >= deadline) {
    return absl::DeadlineExceededError(absl::StrCat(what, " within ", absl::FormatDuration(parts_.timeout),
                                                    "; run the command again, and it goes on (--timeout)"));
  }
  parts_.pauses->WaitFor(parts_.look_period, {});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Machine>> Launcher::FindHead() {
  const absl::StatusOr<std::vector<Machine>> machines = parts_.ec2->List();
  if (!machines.ok()) return machines.status();
  std::optional<Machine> head;
  for (const Machine& machine : *machines) {
    if (!machine.is_head || !machine.is_there()) continue;
    if (head.has_value()) {
      return absl::FailedPreconditionError(absl::StrCat("cluster ", cluster_.name, " has two heads, ",
                                                        head->id, " and ", machine.id,
                                                        ": end the one that is not wanted"));
    }
    head = machine;
  }
  if (head.has_value() && (head->state == "stopped" || head->state == "stopping")) {
    return absl::FailedPreconditionError(
        absl::StrCat("the head ", head->id, " is ", head->state,
                     ": start it, or end the cluster (\"adaptdl cloud down\")"));
  }
  return head;
}

absl::StatusOr<std::string> Launcher::MakeHead() {
  if (absl::Status status = parts_.ec2->CheckSecurityGroups(cluster_.head); !status.ok()) return status;
  const absl::StatusOr<RecipientKey> key =
      parts_.dry_run ? MakeRecipientKey(parts_.clock->Now()) : LaunchKey(cluster_.name, parts_.clock->Now());
  if (!key.ok()) return key.status();
  const absl::StatusOr<std::string> script = MakeHeadScript(cluster_, key->certificate);
  if (!script.ok()) return script.status();
  return parts_.ec2->RunHead(cluster_.head, TokenOf(cluster_, *key), *script);
}

absl::StatusOr<Machine> Launcher::AwaitRunning(const std::string& id, absl::Time deadline) {
  while (true) {
    const absl::StatusOr<std::vector<Machine>> machines = parts_.ec2->List();
    if (!machines.ok()) return machines.status();
    for (const Machine& machine : *machines) {
      if (machine.id != id) continue;
      if (!machine.is_there()) {
        return absl::FailedPreconditionError(absl::StrCat("the head ", id, " has ended (", machine.state,
                                                          "): the machine's image or type may not fit; run "
                                                          "the command after \"adaptdl cloud down\" again"));
      }
      const std::string& address = cluster_.head.is_public ? machine.public_address : machine.private_address;
      if (machine.state == "running" && !address.empty()) return machine;
      if (machine.state == "running" && cluster_.head.is_public) {
        return absl::FailedPreconditionError(
            absl::StrCat("the head ", id,
                         " has no public address, as head.address: public asks for: its subnet gives none"));
      }
    }
    if (absl::Status status = Pause(deadline, absl::StrCat("the head ", id, " has not started"));
        !status.ok())
      return status;
  }
}

absl::StatusOr<Announcement> Launcher::AwaitAnnouncement(const std::string& id, absl::Time deadline) {
  const absl::StatusOr<RecipientKey> key = LaunchKey(cluster_.name, parts_.clock->Now());
  if (!key.ok()) return key.status();
  while (true) {
    const absl::StatusOr<std::string> console = parts_.ec2->ConsoleOf(id);
    if (!console.ok()) return console.status();
    absl::StatusOr<Announcement> announcement = FindAnnouncement(*console, *key);
    if (announcement.ok() && announcement->cluster != cluster_.name) {
      return absl::FailedPreconditionError(absl::StrCat("the head ", id, " is that of cluster ",
                                                        announcement->cluster, ", not of ", cluster_.name));
    }
    if (announcement.ok() || !absl::IsNotFound(announcement.status())) return announcement;
    const absl::Status status = Pause(
        deadline, absl::StrCat("the head ", id, " has not told its certificate on its console (its log: ",
                               "/var/log/cloud-init-output.log)"));
    if (!status.ok()) return status;
  }
}

absl::StatusOr<std::optional<Profile>> Launcher::Up() {
  const absl::Time deadline = parts_.clock->Steady() + parts_.timeout;
  const absl::StatusOr<std::optional<Machine>> found = FindHead();
  if (!found.ok()) return found.status();
  std::string id = found->has_value() ? (*found)->id : "";
  const absl::StatusOr<Profile> known = ReadProfile(cluster_.name);
  if (!id.empty()) {
    parts_.tell(absl::StrCat("the head is there: ", id));
    if (known.ok() && known->head == id) return known;
  } else {
    if (known.ok() && !parts_.dry_run) {
      return absl::FailedPreconditionError(absl::StrCat("the head ", known->head, " of cluster ",
                                                        cluster_.name, " is gone: run \"adaptdl cloud down ",
                                                        cluster_.name, "\" first"));
    }
    const absl::StatusOr<std::string> made = MakeHead();
    if (!made.ok()) return made.status();
    id = *made;
    if (!parts_.dry_run) parts_.tell(absl::StrCat("made the head: ", id));
  }
  if (parts_.dry_run) {
    parts_.tell(absl::StrCat("GetConsoleOutput InstanceId=", id.empty() ? "(the head's)" : id,
                             " Latest=true: until the head has told its certificate and token"));
    return std::nullopt;
  }
  const absl::StatusOr<Machine> head = AwaitRunning(id, deadline);
  if (!head.ok()) return head.status();
  parts_.tell("the head runs; waiting until it tells its certificate on its console");
  const absl::StatusOr<Announcement> announcement = AwaitAnnouncement(id, deadline);
  if (!announcement.ok()) return announcement.status();
  const std::string& address = cluster_.head.is_public ? head->public_address : head->private_address;
  absl::StatusOr<Profile> profile =
      WriteProfile(cluster_.name, id, absl::StrCat(address, ":", cluster_.head.port), *announcement);
  if (!profile.ok()) return profile.status();
  return *std::move(profile);
}

absl::Status Launcher::EndAll(absl::Time deadline) {
  bool is_first = true;
  for (int quiet = 0; quiet < kLooksWithoutMachines;) {
    const absl::StatusOr<std::vector<Machine>> machines = parts_.ec2->List();
    if (!machines.ok()) return machines.status();
    std::vector<std::string> heads;
    std::vector<std::string> workers;
    bool is_ending = false;
    for (const Machine& machine : *machines) {
      if (machine.is_there()) (machine.is_head ? heads : workers).push_back(machine.id);
      is_ending = is_ending || machine.state == "shutting-down";
    }
    for (const std::vector<std::string>* ids : {&heads, &workers}) {
      if (ids->empty()) continue;
      if (!parts_.dry_run)
        parts_.tell(absl::StrCat("ending ", ids == &heads ? "the head " : "", absl::StrJoin(*ids, ", ")));
      if (absl::Status status = parts_.ec2->Terminate(*ids); !status.ok()) return status;
    }
    if (parts_.dry_run) return absl::OkStatus();
    const bool is_quiet = heads.empty() && workers.empty() && !is_ending;
    // Where nothing was there from the beginning, nobody makes more.
    if (is_quiet && is_first) return absl::OkStatus();
    quiet = is_quiet ? quiet + 1 : 0;
    is_first = false;
    if (absl::Status status = Pause(deadline, "the machines have not ended"); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Launcher::Down() {
  if (absl::Status status = EndAll(parts_.clock->Steady() + parts_.timeout); !status.ok()) return status;
  const absl::StatusOr<std::vector<std::string>> templates = parts_.ec2->LaunchTemplates();
  if (!templates.ok()) return templates.status();
  for (const std::string& name : *templates) {
    if (absl::Status status = parts_.ec2->DeleteLaunchTemplate(name);
        !status.ok() && !absl::IsNotFound(status))
      return status;
  }
  const absl::StatusOr<std::vector<std::string>> volumes = parts_.ec2->Volumes();
  if (!volumes.ok()) return volumes.status();
  if (!parts_.dry_run) {
    if (absl::Status status = RemoveProfile(cluster_.name); !status.ok()) return status;
  }
  if (!volumes->empty())
    parts_.tell(absl::StrCat("left: volumes ", absl::StrJoin(*volumes, ", "),
                             ", which go with their machines or cost on"));
  if (cluster_.storage.has_value())
    parts_.tell(absl::StrCat("left: the files of jobs, in ", cluster_.storage->source));
  if (!cluster_.objects.url.empty())
    parts_.tell(absl::StrCat("left: the files of jobs, in ", cluster_.objects.url));
  return absl::OkStatus();
}

}  // namespace adaptdl::cli
