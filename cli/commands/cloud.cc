#include "cli/commands/cloud.h"

#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "CLI/App.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/cloud/launcher.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/health_check.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/security.h"
#include "libs/aws/credential_chain.h"
#include "libs/base/file.h"
#include "libs/base/process/environment.h"
#include "libs/jobfile/document.h"

namespace adaptdl::cli {
namespace {

struct CloudOptions {
  std::string cluster;
  bool yes = false;
  bool dry_run = false;
  absl::Duration timeout = absl::Minutes(10);
  absl::Duration look_period = absl::Seconds(5);
};

double RandomPart() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(random);
}

LauncherParts PartsOf(const Context& context, const CloudOptions& options, CloudAccess* access) {
  return {.ec2 = access->ec2(),
          .clock = context.clock,
          .pauses = access->pauses(),
          .tell = [](const std::string& text) { Note(text); },
          .timeout = options.timeout,
          .look_period = options.look_period,
          .dry_run = options.dry_run};
}

// The services start after the head has told.
absl::Status AwaitSupervisor(const Context& context, const CloudOptions& options, const CloudAccess& access,
                             const Profile& profile) {
  const absl::Time deadline = context.clock->Steady() + options.timeout;
  Context own = context;
  own.supervisor = profile.supervisor;
  own.ca_file = profile.ca_file;
  own.token_file = profile.token_file;
  const absl::StatusOr<rpc::ClientSecurity> security = FindSecurity(own, profile.supervisor);
  if (!security.ok()) return security.status();
  const absl::Time begin = context.clock->Steady();
  StatusLine line(context);
  while (true) {
    line.Set(absl::StrCat("starting since ", DurationText(context.clock->Steady() - begin), ", at most ",
                          DurationText(deadline - begin)));
    const auto health = CheckHealth(profile.supervisor, *security, "", context.call_timeout);
    if (health.ok() && *health == "SERVING") return absl::OkStatus();
    if (context.clock->Steady() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("the supervisor at ", profile.supervisor, " does not answer (",
                       health.ok() ? *health : health.status().message(),
                       "): can this machine reach the address, and do the security groups let it in? Run the "
                       "command again, and it goes on"));
    }
    access.pauses()->WaitFor(options.look_period, {});
  }
}

absl::StatusOr<int> CloudUp(const Context& context, const CloudOptions& options) {
  std::string text;
  const absl::StatusOr<ClusterFile> cluster = FindCluster(options.cluster, &text);
  if (!cluster.ok()) return cluster.status();
  for (const std::string& warning : cluster->pools.warnings) Note(absl::StrCat("warning: ", warning));
  if (!options.dry_run) {
    const absl::StatusOr<std::string> kept = KeptClusterText(cluster->name);
    if (!kept.ok() && !absl::IsNotFound(kept.status())) return kept.status();
    if (kept.ok() && *kept != text && ReadProfile(cluster->name).ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("cluster ", cluster->name,
                       " was launched from a file that said something else: change the pools in "
                       "/etc/adaptdl/pools.yaml of its head, or end it first (\"adaptdl cloud down ",
                       cluster->name, "\")"));
    }
    if (absl::Status status = KeepClusterText(cluster->name, text); !status.ok()) return status;
  }
  CloudAccess access(context, *cluster, options.dry_run);
  Launcher launcher(*cluster, PartsOf(context, options, &access));
  const absl::StatusOr<std::optional<Profile>> profile = launcher.Up();
  if (!profile.ok()) return profile.status();
  if (!profile->has_value()) return kExitOk;
  const Profile& up = **profile;
  Note(absl::StrCat("waiting for the supervisor at ", up.supervisor));
  if (absl::Status status = AwaitSupervisor(context, options, access, up); !status.ok()) return status;
  if (context.format != Format::kTable) {
    PrintDocument(context, {{"cluster", up.name},
                            {"head", up.head},
                            {"supervisor", up.supervisor},
                            {"caFile", up.ca_file},
                            {"tokenFile", up.token_file}});
    return kExitOk;
  }
  Print(absl::StrCat("Cluster ", up.name, " is up: its supervisor is ", up.supervisor,
                     "\nOther commands use it by: --cluster ", up.name, "\n"));
  return kExitOk;
}

// Whether the user means it.
absl::StatusOr<bool> Confirm(const std::string& question) {
  if (isatty(STDIN_FILENO) != 1) return UsageError("nobody can be asked here: give --yes");
  Note(absl::StrCat(question, " [y/N]"));
  std::string answer;
  std::getline(std::cin, answer);
  return absl::AsciiStrToLower(answer) == "y" || absl::AsciiStrToLower(answer) == "yes";
}

absl::StatusOr<int> CloudDown(const Context& context, const CloudOptions& options) {
  const absl::StatusOr<ClusterFile> cluster = FindCluster(options.cluster, nullptr);
  if (!cluster.ok()) return cluster.status();
  if (!options.yes && !options.dry_run) {
    const absl::StatusOr<bool> sure =
        Confirm(absl::StrCat("End all machines of cluster ", cluster->name, " in ", cluster->region,
                             ", and what its jobs have not written?"));
    if (!sure.ok()) return sure.status();
    if (!*sure) return absl::CancelledError("nothing was ended");
  }
  CloudAccess access(context, *cluster, options.dry_run);
  Launcher launcher(*cluster, PartsOf(context, options, &access));
  if (absl::Status status = launcher.Down(); !status.ok()) return status;
  if (!options.dry_run) Print(absl::StrCat("Cluster ", cluster->name, " is down.\n"));
  return kExitOk;
}

void AddCommonFlags(CLI::App* command, CloudOptions* options) {
  command->add_flag("--dry-run", options->dry_run,
                    "Change nothing: say each call that would be made, with its parameters");
  AddDuration(*command, "--timeout", &options->timeout, "Longest time to wait for machines");
  AddDuration(*command, "--look-period", &options->look_period, "Time between two looks at them",
              absl::Milliseconds(10));
}

void AddCloudUp(CLI::App* cloud, Context* context) {
  CLI::App* command =
      cloud->add_subcommand("up", "Make what is missing of a cluster: its head, which makes the workers");
  const auto options = std::make_shared<CloudOptions>();
  command->add_option("file", options->cluster, "File of the cluster (docs/cloud.md)")
      ->required()
      ->type_name("FILE");
  AddCommonFlags(command, options.get());
  command->callback(
      [context, options] { context->action = [context, options] { return CloudUp(*context, *options); }; });
}

void AddCloudDown(CLI::App* cloud, Context* context) {
  CLI::App* command = cloud->add_subcommand("down", "End all machines of a cluster, and say what is left");
  const auto options = std::make_shared<CloudOptions>();
  command
      ->add_option("cluster", options->cluster, "Name of a cluster that was launched from here, or its file")
      ->required();
  command->add_flag("--yes", options->yes, "Do not ask");
  AddCommonFlags(command, options.get());
  command->callback(
      [context, options] { context->action = [context, options] { return CloudDown(*context, *options); }; });
}

}  // namespace

CloudAccess::CloudAccess(const Context& context, const ClusterFile& cluster, bool dry_run)
    : credentials_(aws::MakeCredentialChain(
          {.environment = aws::VariablesOf(OwnEnvironment()), .region = cluster.region}, &http_,
          context.clock, &pauses_)),
      ec2_(std::make_unique<Ec2Machines>(
          Ec2Options{.cluster = cluster.name,
                     .region = cluster.region,
                     .endpoint = cluster.endpoint,
                     .dry_run = dry_run,
                     .tell = [](const std::string& text) { Print(absl::StrCat(text, "\n")); }},
          aws::World{&http_, credentials_.get(), context.clock, &pauses_, RandomPart})) {}

absl::StatusOr<ClusterFile> FindCluster(const std::string& file_or_name, std::string* text) {
  absl::StatusOr<std::string> content = absl::NotFoundError("");
  std::string file_name = std::filesystem::path(file_or_name).filename().string();
  if (std::filesystem::is_regular_file(file_or_name)) {
    content = ReadWholeFile(file_or_name, jobfile::kMaxFileBytes);
  } else if (ProfileFolder(file_or_name).ok()) {
    content = KeptClusterText(file_or_name);
    file_name = absl::StrCat(file_or_name, "'s cluster.yaml");
  }
  if (absl::IsNotFound(content.status())) {
    return absl::NotFoundError(absl::StrCat(
        file_or_name, " is no file, and no cluster that was launched from here: give the cluster's file"));
  }
  if (!content.ok()) return content.status();
  if (text != nullptr) *text = *content;
  return ParseClusterFile(*content, file_name);
}

absl::Status UseCluster(Context* context) {
  if (context->cluster.empty()) return absl::OkStatus();
  if (context->kubernetes.enabled || context->insecure)
    return UsageError("--cluster goes with neither --kubernetes nor --insecure");
  const absl::StatusOr<Profile> profile = ReadProfile(context->cluster);
  if (!profile.ok()) return profile.status();
  if (context->supervisor.empty()) context->supervisor = profile->supervisor;
  if (context->ca_file.empty()) context->ca_file = profile->ca_file;
  if (context->token_file.empty()) context->token_file = profile->token_file;
  return absl::OkStatus();
}

void AddCloud(CLI::App& app, Context* context) {
  CLI::App* cloud = app.add_subcommand("cloud", "A cluster in a cloud: make it, submit to it, end it");
  cloud->require_subcommand(1);
  cloud->fallthrough();
  AddCloudUp(cloud, context);
  AddCloudDown(cloud, context);
  AddCloudStatus(*cloud, context);
  AddCloudSubmit(*cloud, context);
  AddCloudAnnounce(*cloud, context);
}

}  // namespace adaptdl::cli
