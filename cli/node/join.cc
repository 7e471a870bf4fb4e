#include "cli/node/join.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/kubernetes/program.h"
#include "cli/node/worker_settings.h"
#include "cli/output.h"
#include "libs/base/backoff.h"
#include "libs/base/file.h"
#include "libs/base/unique_fd.h"
#include "libs/enrolment/join_token.h"
#include "libs/enrolment/node_identity.h"
#include "libs/rpc/endpoints.h"
#include "libs/rpc/security.h"
#include "libs/service/listen_address.h"

namespace adaptdl::cli {
namespace {

constexpr int kWorkerPort = 7103;
constexpr int kPublicMode = 0644;

absl::StatusOr<std::string> ReadTokenText(const std::string& path) {
  if (path != "-") return ReadWholeFile(path, static_cast<int64_t>(enrolment::kMaxTokenBytes));
  std::string text;
  char next = 0;
  while (text.size() <= enrolment::kMaxTokenBytes && std::cin.get(next) && next != '\n') text += next;
  return text;
}

std::string MachineName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return absl::AsciiStrToLower(name);
}

// This machine's address on the way to the supervisor. Nothing is sent.
absl::StatusOr<std::string> OwnAddress(const std::string& supervisor) {
  const absl::StatusOr<service::ListenAddress> address =
      service::ParseListenAddress("--supervisor", supervisor);
  if (!address.ok()) return address.status();
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const std::string host_name(absl::StripSuffix(absl::StripPrefix(address->host, "["), "]"));
  const int error = getaddrinfo(host_name.c_str(), absl::StrCat(address->port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("--supervisor ", supervisor, ": ", gai_strerror(error), "; is the name right?"));
  }
  const auto free_it = absl::MakeCleanup([found] { freeaddrinfo(found); });
  const UniqueFd socket_fd(socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  char host[NI_MAXHOST] = "";
  if (connect(socket_fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      getsockname(socket_fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&own), size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) !=
          0) {
    return absl::UnavailableError(absl::StrCat(
        "--supervisor ", supervisor, " can't be reached from here; give this machine's address by --listen"));
  }
  return std::string(host);
}

absl::StatusOr<std::string> ListenOf(const JoinOptions& options, const std::string& supervisor) {
  if (!options.listen.empty()) return options.listen;
  const absl::StatusOr<std::string> host = OwnAddress(supervisor);
  if (!host.ok()) return host;
  return absl::StrContains(*host, ':') ? absl::StrCat("[", *host, "]:", kWorkerPort)
                                       : absl::StrCat(*host, ":", kWorkerPort);
}

// Folders that all may look into: jobs read ca.pem, and pass through the state on their way to folders of their own.
absl::Status MakeFolder(const std::string& folder, std::filesystem::perms mode) {
  std::error_code error;
  if (std::filesystem::create_directories(folder, error)) std::filesystem::permissions(folder, mode, error);
  return error ? ErrnoStatus(error.value(), absl::StrCat("make folder ", folder)) : absl::OkStatus();
}

// The supervisor may be about to start, and who asks too often is told to wait.
absl::Status EnrolPatiently(const Context& context, const std::string& folder, const std::string& node_id,
                            const enrolment::Proof& proof, rpc::Endpoints* supervisors) {
  Backoff backoff(kFirstRetryDelay, kLongestRetryDelay);
  const absl::Time deadline = SteadyNow() + context.call_timeout;
  while (true) {
    const absl::Status status =
        enrolment::EnrolOnce(folder, node_id, proof, enrolment::CallOf(supervisors, context.call_timeout));
    if (status.ok() || !enrolment::IsWorthRetrying(status) || SteadyNow() >= deadline) return status;
    context.clock->SleepFor(backoff.Next());
  }
}

absl::Status GetIdentity(const Context& context, const JoinOptions& options, const std::string& node_id,
                         const std::string& ca_file, const std::string& secret) {
  const std::string folder = absl::StrCat(options.places.state, "/identity");
  const absl::StatusOr<enrolment::Validity> there = enrolment::ReadIdentity(folder, node_id);
  if (there.ok() && there->not_after > context.clock->Now()) {
    Tell(absl::StrCat("it has a certificate as node ", node_id, " already, in ", folder));
    return absl::OkStatus();
  }
  if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
  absl::Status status = MakeFolder(options.places.state, std::filesystem::perms{0711});
  if (!status.ok()) return status;
  absl::StatusOr<std::vector<std::string>> addresses =
      rpc::ParseEndpoints("--supervisor", context.supervisor);
  if (!addresses.ok()) return addresses.status();
  rpc::ClientSecurity security;
  security.tls.ca = ca_file;
  security.server_name = context.tls_server_name.empty() ? rpc::kSupervisorName : context.tls_server_name;
  rpc::Endpoints supervisors(*std::move(addresses), security);
  status = EnrolPatiently(context, folder, node_id, {.join_token = secret, .instance_id = ""}, &supervisors);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat("joining by the supervisor at ", context.supervisor, ": ",
                                                    status.message()));
  }
  Tell(absl::StrCat("it has a certificate as node ", node_id, " now, in ", folder));
  return absl::OkStatus();
}

absl::Status WriteSettings(const JoinOptions& options, const Settings& settings) {
  absl::StatusOr<std::string> text = ReadWholeFile(options.places.settings);
  if (absl::IsNotFound(text.status()))
    text = "# Settings of adaptdl-worker, written by \"adaptdl node join\".\n";
  if (!text.ok()) return text.status();
  const absl::Status status =
      WriteFileAtomically(options.places.settings, WithSettings(*text, settings), kPublicMode);
  if (status.ok()) Tell(absl::StrCat("the settings of its worker are in ", options.places.settings));
  return status;
}

absl::Status StartWorker() {
  for (const char* verb : {"enable", "restart"}) {
    Tell(absl::StrCat("systemctl ", verb, " ", kWorkerUnit));
    if (absl::Status status = RunToEnd({"systemctl", verb, kWorkerUnit}); !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat(status.message(), "; \"journalctl -u ", kWorkerUnit, "\" says more"));
    }
  }
  return absl::OkStatus();
}

// Who may not write where the package's files are is not root.
absl::Status WithRemedy(const absl::Status& status) {
  if (!absl::IsPermissionDenied(status) || geteuid() == 0) return status;
  return absl::PermissionDeniedError(absl::StrCat(status.message(), "; run this command as root (sudo)"));
}

absl::Status JoinAs(const Context& context, const JoinOptions& options, const std::string& node_id,
                    const enrolment::JoinToken& token) {
  const std::string first = context.supervisor.substr(0, context.supervisor.find(','));
  const absl::StatusOr<std::string> listen = ListenOf(options, first);
  if (!listen.ok()) return listen.status();
  const std::string ca_file = absl::StrCat(options.places.security, "/ca.pem");
  const Settings settings = {
      {"ADAPTDL_SERVER_SUPERVISOR", context.supervisor},
      {"ADAPTDL_SERVER_NODE_ID", node_id},
      {"ADAPTDL_SERVER_LISTEN", *listen},
      {"ADAPTDL_SERVER_TLS_CA", ca_file},
      {"ADAPTDL_SERVER_TLS_CERT", ""},
      {"ADAPTDL_SERVER_TLS_KEY", ""},
      // Nothing is there, as it has joined: a token that was used is no use.
      {"ADAPTDL_SERVER_ENROL_TOKEN_FILE", absl::StrCat(options.places.security, "/join-token")}};
  if (absl::Status status = CheckSettings(settings); !status.ok()) return status;
  absl::Status status = MakeFolder(options.places.security, std::filesystem::perms{0755});
  if (status.ok()) status = WriteFileAtomically(ca_file, token.authority, kPublicMode);
  if (!status.ok()) return status;
  Tell(absl::StrCat("it knows its supervisor by ", ca_file));
  status = GetIdentity(context, options, node_id, ca_file, token.secret);
  if (!status.ok()) return status;
  Settings all = settings;
  if (!options.storage.empty()) all.emplace_back("ADAPTDL_SERVER_STORAGE_DIR", options.storage);
  return WriteSettings(options, all);
}

}  // namespace

void Tell(const std::string& text) { Print(absl::StrCat(Printable(text), "\n")); }

absl::Status CheckRoot(absl::string_view what) {
  if (geteuid() == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(what, " takes root's rights: run this command by sudo"));
}

absl::StatusOr<int> Join(const Context& context, const JoinOptions& options) {
  if (context.supervisor.empty()) return UsageError("give the supervisor's HOST:PORT by --supervisor");
  if (options.start) {
    const absl::Status root = CheckRoot("starting the worker");
    if (!root.ok()) return root;
    if (!IsProgramThere("systemctl")) {
      return absl::FailedPreconditionError(
          "there is no systemctl here: give --no-start, and start adaptdl-worker yourself");
    }
  }
  const absl::StatusOr<std::string> text = ReadTokenText(options.token_file);
  if (!text.ok()) return text.status();
  absl::StatusOr<enrolment::JoinToken> token = enrolment::ParseJoinToken(*text);
  if (!token.ok()) return token.status();
  if (!context.ca_file.empty()) {
    const absl::StatusOr<std::string> authority = ReadWholeFile(context.ca_file);
    if (!authority.ok()) return authority.status();
    token->authority = *authority;
  }
  if (token->authority.empty()) {
    return UsageError(
        "this token does not say how to know the supervisor: give the cluster's ca.pem by --ca");
  }
  const std::string node_id = options.node_id.empty() ? MachineName() : options.node_id;
  if (absl::Status status = JoinAs(context, options, node_id, *token); !status.ok())
    return WithRemedy(status);
  if (!options.start) {
    Tell(absl::StrCat("to start its worker: systemctl enable --now ", kWorkerUnit));
    return kExitOk;
  }
  if (absl::Status status = StartWorker(); !status.ok()) return status;
  Tell(absl::StrCat("this machine is node ", node_id, " of the cluster now; \"adaptdl nodes\" shows it"));
  return kExitOk;
}

}  // namespace adaptdl::cli
