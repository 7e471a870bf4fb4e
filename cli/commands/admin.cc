#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "CLI/App.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/output.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "libs/base/file.h"
#include "nlohmann/json.hpp"
#include "services/supervisor/store/check.h"
#include "services/supervisor/store/restore.h"

namespace adaptdl::cli {
namespace {

struct RestoreOptions {
  std::string backup;
  std::string folder;
  bool replace = false;
};

struct CheckOptions {
  std::string path;
  bool mend = false;
  bool remove = false;
};

// All of `data`.
absl::Status WriteAll(int file, const std::string& path, absl::string_view data) {
  while (!data.empty()) {
    const ssize_t written = write(file, data.data(), data.size());
    if (written < 0 && errno != EINTR) return ErrnoStatus(errno, path);
    if (written > 0) data.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Receive(Client& client, int file, const std::string& path) {
  if (const absl::Status status = client.Reach(); !status.ok()) return status;
  grpc::ClientContext context;
  const auto stream = client.admin()->Backup(&context, v1::BackupRequest());
  v1::BackupResponse piece;
  int64_t received = 0;
  int64_t size = 0;
  while (stream->Read(&piece)) {
    if (const absl::Status status = WriteAll(file, path, piece.data()); !status.ok()) {
      context.TryCancel();
      stream->Finish();
      return status;
    }
    received += static_cast<int64_t>(piece.data().size());
    size = piece.size();
  }
  const grpc::Status end = stream->Finish();
  if (!end.ok()) return client.Explain(end);
  if (received != size) {
    return absl::DataLossError(absl::StrCat("only ", received, " of ", size, " bytes came; try again"));
  }
  if (fsync(file) != 0) return ErrnoStatus(errno, path);
  return received;
}

// The file appears under its name when it is whole. It holds secrets, so only its owner may read it.
absl::StatusOr<int> Backup(const Context& context, const std::string& path) {
  if (access(path.c_str(), F_OK) == 0) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists; give another name, or remove it first"));
  }
  const std::string partial = path + ".partial";
  const int file = open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return ErrnoStatus(errno, partial);
  const auto clean_up = absl::MakeCleanup([file, &partial] {
    close(file);
    unlink(partial.c_str());
  });
  Client client(context);
  const absl::StatusOr<int64_t> bytes = Receive(client, file, partial);
  if (!bytes.ok()) return bytes.status();
  if (rename(partial.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, path);
  if (context.format == Format::kTable) {
    Print(absl::StrCat(FormatBytes(*bytes), "B of state backed up to ", Printable(path), "\n"));
  } else {
    PrintDocument(context, {{"path", path}, {"bytes", *bytes}});
  }
  return kExitOk;
}

std::string Count(int64_t count, absl::string_view thing) {
  return absl::StrCat(count, " ", thing, count == 1 ? "" : "s");
}

std::string Name(const supervisor::DamagedRow& row) {
  const std::string key = absl::StrCat(row.table, " ", absl::StrJoin(row.key, "/"), ", ", row.column);
  return row.job.empty() ? key : absl::StrCat(key, " (job ", row.name_space, "/", row.job, ")");
}

void PrintDamage(const supervisor::StoreReport& state, supervisor::Repair repair) {
  using supervisor::Repair;
  for (const supervisor::DamagedRow& row : state.damaged) {
    const char* what = "can't be read";
    if (row.mended) what = repair == Repair::kNothing ? "text that is not valid; --mend mends it" : "mended";
    if (!row.mended && repair == Repair::kRemove) what = "could not be read; removed";
    Print(absl::StrCat(Printable(Name(row)), ": ", what, "\n"));
  }
}

nlohmann::json ReportJson(const supervisor::StoreReport& state) {
  nlohmann::json damaged = nlohmann::json::array();
  for (const supervisor::DamagedRow& row : state.damaged) {
    damaged.push_back({{"table", row.table},
                       {"column", row.column},
                       {"key", absl::StrJoin(row.key, "/")},
                       {"namespace", row.name_space},
                       {"job", row.job},
                       {"mendable", row.mended}});
  }
  return {{"jobs", state.jobs},   {"replicas", state.replicas}, {"events", state.events},
          {"nodes", state.nodes}, {"quotas", state.quotas},     {"damaged", damaged}};
}

absl::StatusOr<int> Check(const Context& context, const CheckOptions& options) {
  const supervisor::Repair repair = options.remove ? supervisor::Repair::kRemove
                                    : options.mend ? supervisor::Repair::kMend
                                                   : supervisor::Repair::kNothing;
  const absl::StatusOr<supervisor::CheckedStore> checked =
      supervisor::CheckStore(options.path, repair, *context.clock);
  if (!checked.ok()) return checked.status();
  const supervisor::StoreReport& state = checked->state;
  if (context.format == Format::kTable) {
    Print(absl::StrCat(Count(state.jobs, "job"), ", ", Count(state.replicas, "replica"), ", ",
                       Count(state.events, "event"), ", ", Count(state.nodes, "node"), ", ",
                       Count(state.quotas, "quota"), "; ", Count(state.damaged.size(), "damaged row"), "\n"));
    PrintDamage(state, repair);
    if (!checked->kept.empty()) Print(absl::StrCat("what was there is kept as ", checked->kept, "\n"));
  } else {
    nlohmann::json document = ReportJson(state);
    document["kept"] = checked->kept;
    PrintDocument(context, document);
  }
  const auto is_left = [&](const supervisor::DamagedRow& row) {
    return repair == supervisor::Repair::kNothing || (!row.mended && repair == supervisor::Repair::kMend);
  };
  const bool left = std::any_of(state.damaged.begin(), state.damaged.end(), is_left);
  return left ? kExitError : kExitOk;
}

absl::StatusOr<int> Restore(const Context& context, const RestoreOptions& options) {
  const absl::StatusOr<supervisor::Restored> restored =
      supervisor::RestoreStore(options.backup, options.folder, options.replace, *context.clock);
  if (!restored.ok()) return restored.status();
  if (context.format == Format::kTable) {
    Print(absl::StrCat("restored ", Count(restored->state.jobs, "job"), " and ",
                       Count(restored->state.nodes, "node"), " to ", Printable(options.folder),
                       "; start the supervisor now\n"));
    PrintDamage(restored->state, supervisor::Repair::kMend);
    if (!restored->kept.empty()) Print(absl::StrCat("what was there is kept as ", restored->kept, "\n"));
  } else {
    nlohmann::json document = ReportJson(restored->state);
    document["kept"] = restored->kept;
    PrintDocument(context, document);
  }
  return kExitOk;
}

}  // namespace

void AddAdmin(CLI::App& app, Context* context) {
  CLI::App* admin =
      app.add_subcommand("admin", "Look after a cluster: the supervisor's state, certificates and tokens");
  admin->require_subcommand(1);
  admin->fallthrough();

  CLI::App* backup = admin->add_subcommand("backup", "Copy all that the supervisor stores, while it works");
  const auto path = std::make_shared<std::string>();
  backup->add_option("FILE", *path, "File to make; it holds the secrets of running jobs")->required();
  backup->callback(
      [context, path] { context->action = [context, path] { return Backup(*context, *path); }; });

  CLI::App* restore = admin->add_subcommand(
      "restore", "Put a backup in place of the state of a supervisor that does not run");
  const auto options = std::make_shared<RestoreOptions>();
  restore->add_option("FILE", options->backup, "Backup")->required();
  restore->add_option("--state-dir", options->folder, "The supervisor's --state-dir, on this machine")
      ->required()
      ->type_name("DIR");
  restore->add_flag("--replace", options->replace, "Even if there is a state; it is kept beside the new one");
  restore->callback(
      [context, options] { context->action = [context, options] { return Restore(*context, *options); }; });

  CLI::App* check =
      admin->add_subcommand("check", "Say what a supervisor's state or a backup holds, and mend what it can");
  const auto what = std::make_shared<CheckOptions>();
  check->add_option("PATH", what->path, "Backup, or the --state-dir of a supervisor that does not run")
      ->required();
  check->add_flag("--mend", what->mend, "Mend texts that are not valid; what was there is kept beside it");
  check->add_flag("--remove", what->remove, "The same, and remove rows that can't be read even so");
  check->callback([context, what] { context->action = [context, what] { return Check(*context, *what); }; });

  AddCertificates(*admin, context);
  AddKubernetesSecrets(*admin, context);
  AddToken(*admin, context);
  AddJoinToken(*admin, context);
}

}  // namespace adaptdl::cli
