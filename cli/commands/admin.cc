#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "CLI/App.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/output.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "libs/base/file.h"
#include "services/supervisor/store/restore.h"

namespace adaptdl::cli {
namespace {

struct RestoreOptions {
  std::string backup;
  std::string folder;
  bool replace = false;
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

absl::StatusOr<int> Restore(const Context& context, const RestoreOptions& options) {
  const absl::StatusOr<supervisor::Restored> restored =
      supervisor::RestoreStore(options.backup, options.folder, options.replace);
  if (!restored.ok()) return restored.status();
  if (context.format == Format::kTable) {
    Print(absl::StrCat("restored ", restored->jobs, restored->jobs == 1 ? " job" : " jobs", " and ",
                       restored->nodes, restored->nodes == 1 ? " node" : " nodes", " to ",
                       Printable(options.folder), "; start the supervisor now\n"));
    if (!restored->kept.empty()) Print(absl::StrCat("what was there is kept as ", restored->kept, "\n"));
  } else {
    PrintDocument(context, {{"jobs", restored->jobs}, {"nodes", restored->nodes}, {"kept", restored->kept}});
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

  AddCertificates(*admin, context);
  AddToken(*admin, context);
}

}  // namespace adaptdl::cli
