#include "services/autoscaler/providers/machines/worker_launch.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace adaptdl::autoscaler {
namespace {

// What a cloud does its own way.
struct CloudWays {
  absl::string_view name;
  // For people.
  absl::string_view owner;
  size_t max_user_data_bytes;
  // Of the start script: the rules of the firewall, and who the machine is ($node, $instance, $address).
  absl::string_view guard;
  absl::string_view identity;
};

constexpr CloudWays kAmazon = {
    .name = "aws",
    .owner = "Amazon",
    .max_user_data_bytes = 16 << 10,
    .guard = R"(guard=(OUTPUT -d 169.254.169.254 -m owner --uid-owner "$REPLICA_UIDS" -j REJECT)
iptables -w -C "${guard[@]}" 2>/dev/null || iptables -w -I "${guard[@]}"
)",
    .identity = R"(metadata=http://169.254.169.254/latest
token=$(ask -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$metadata/api/token")
instance=$(ask -H "X-aws-ec2-metadata-token: $token" "$metadata/meta-data/instance-id")
address=$(ask -H "X-aws-ec2-metadata-token: $token" "$metadata/meta-data/local-ipv4")
node=$instance
)"};

// Google's service answers for names (DNS) as well, at the same address: replicas need that.
constexpr CloudWays kGoogle = {
    .name = "gcp",
    .owner = "Google",
    .max_user_data_bytes = 256 << 10,
    .guard =
        R"(guard=(OUTPUT -d 169.254.169.254 -p tcp ! --dport 53 -m owner --uid-owner "$REPLICA_UIDS" -j REJECT)
iptables -w -C "${guard[@]}" 2>/dev/null || iptables -w -I "${guard[@]}"
if [ -e /proc/net/if_inet6 ]; then
  guard=(OUTPUT -d fd20:ce::254 -p tcp ! --dport 53 -m owner --uid-owner "$REPLICA_UIDS" -j REJECT)
  ip6tables -w -C "${guard[@]}" 2>/dev/null || ip6tables -w -I "${guard[@]}"
fi
)",
    .identity = R"(metadata=http://169.254.169.254/computeMetadata/v1/instance
node=$(ask -H 'Metadata-Flavor: Google' "$metadata/name")
instance=$(ask -H 'Metadata-Flavor: Google' "$metadata/id")
address=$(ask -H 'Metadata-Flavor: Google' "$metadata/network-interfaces/0/ip")
)"};

const CloudWays& WaysOf(const WorkerLaunch& launch) {
  return launch.cloud == MachineCloud::kGcp ? kGoogle : kAmazon;
}

// As one word of a shell.
std::string Quote(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

absl::Status Bad(absl::string_view field, absl::string_view value, absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat(field, " \"", value, "\": ", remedy));
}

bool HasLineEnd(absl::string_view text) { return text.find_first_of("\r\n") != absl::string_view::npos; }

// What runs at each start of the machine, up to the worker. $ROOT: "/", or a folder of a test.
constexpr char kStart[] = R"(#!/bin/bash
# Runs the AdaptDL worker of this machine. Written at the machine's start.
set -euo pipefail
# Replicas may not ask the metadata service: it knows the machine's role.
GUARD
ask() { curl --silent --show-error --fail --noproxy '*' --max-time 5 --retry 10 --retry-connrefused "$@"; }
IDENTITY
mount_at() {
  mkdir -p "$ROOT$2"
  mountpoint -q "$ROOT$2" && return
  # The network may be late.
  for _ in 1 2 3 4 5 6; do
    mount -t "$3" ${4:+-o "$4"} "$1" "$ROOT$2" && return
    sleep 5
  done
  echo "$1 can't be mounted at $2" >&2
  return 1
}
)";

constexpr char kUnit[] = R"([Unit]
Description=AdaptDL worker
Wants=network-online.target
After=network-online.target docker.service
[Service]
ExecStart=ROOT/opt/adaptdl/start
Restart=always
RestartSec=5
KillMode=mixed
TimeoutStopSec=150
[Install]
WantedBy=multi-user.target
)";

std::vector<std::string> WorkerArguments(const WorkerLaunch& launch) {
  std::vector<std::string> words = {
      "--supervisor=" + Quote(launch.supervisor),
      "--node-id=\"$node\"",
      "--instance-id=\"$instance\"",
      absl::StrCat("--instance-metadata=", WaysOf(launch).name),
      "--advertise-host=\"$address\"",
      "--listen=0.0.0.0:7100",
      "--state-dir=/var/lib/adaptdl/state",
      "--replica-user=per-job",
      "--replica-uids=" + Quote(launch.replica_uids),
      "--on-terminate=drain",
  };
  if (launch.insecure) {
    words.push_back("--insecure");
  } else {
    words.insert(words.end(), {"--tls-ca=/etc/adaptdl/ca.pem", "--enrol-instance"});
    if (!launch.tls_server_name.empty())
      words.push_back("--tls-server-name=" + Quote(launch.tls_server_name));
  }
  if (!launch.storage_dir.empty()) words.push_back("--storage-dir=" + Quote(launch.storage_dir));
  for (const auto& [name, value] : launch.labels)
    words.push_back("--label=" + Quote(absl::StrCat(name, "=", value)));
  for (const std::string& taint : launch.taints) words.push_back("--taint=" + Quote(taint));
  if (launch.preemptible) words.push_back("--preemptible");
  for (const std::string& argument : launch.arguments) words.push_back(Quote(argument));
  return words;
}

std::vector<std::string> Command(const WorkerLaunch& launch) {
  if (launch.kind == LaunchKind::kBinary) return {"exec", Quote(launch.binary)};
  // The machine's network, as replicas listen on ports of their own; its shared memory, which collectives use.
  std::vector<std::string> words = {
      "exec docker run --rm --name adaptdl-worker --network host --ipc host --user 0:0",
      "--stop-timeout 150 --no-healthcheck",
      "-v /etc/adaptdl:/etc/adaptdl:ro -v /var/lib/adaptdl:/var/lib/adaptdl"};
  for (const WorkerMount& mount : launch.mounts)
    words.push_back("-v " + Quote(absl::StrCat(mount.target, ":", mount.target)));
  if (launch.gpus) words.push_back("--gpus all");
  words.insert(words.end(), {Quote(launch.image), "adaptdl-worker"});
  return words;
}

std::string StartScript(const WorkerLaunch& launch, const std::string& root) {
  std::string script = absl::StrReplaceAll(
      kStart, {{"set -euo pipefail\n", absl::StrCat("set -euo pipefail\nROOT=", Quote(root),
                                                    "\nREPLICA_UIDS=", Quote(launch.replica_uids), "\n")},
               {"GUARD\n", WaysOf(launch).guard},
               {"IDENTITY\n", WaysOf(launch).identity}});
  for (const WorkerMount& mount : launch.mounts) {
    absl::StrAppend(&script, "mount_at ", Quote(mount.source), " ", Quote(mount.target), " ",
                    Quote(mount.type), " ", Quote(mount.options), "\n");
  }
  // One that a start before this left behind.
  if (launch.kind == LaunchKind::kContainer)
    absl::StrAppend(&script, "docker rm --force adaptdl-worker >/dev/null 2>&1 || true\n");
  std::vector<std::string> words = Command(launch);
  const std::vector<std::string> arguments = WorkerArguments(launch);
  words.insert(words.end(), arguments.begin(), arguments.end());
  absl::StrAppend(&script, absl::StrJoin(words, " \\\n  "), "\n");
  return script;
}

// Writes a file. The delimiter stands on no line of the text: CheckWorkerLaunch sees to that.
std::string WriteFile(const std::string& path, absl::string_view text) {
  return absl::StrCat("cat > ", Quote(path), " <<'ADAPTDL-END'\n", text,
                      absl::EndsWith(text, "\n") ? "" : "\n", "ADAPTDL-END\n");
}

}  // namespace

absl::Status CheckWorkerLaunch(const WorkerLaunch& launch) {
  if (launch.kind == LaunchKind::kContainer && launch.image.empty())
    return Bad("workerImage", "", "name the container image of the worker");
  if (launch.kind == LaunchKind::kBinary && !absl::StartsWith(launch.binary, "/"))
    return Bad("workerBinary", launch.binary,
               "give the absolute path of adaptdl-worker in the machine's image");
  if (launch.supervisor.empty())
    return Bad("supervisor", "", "give the host:port that the machines reach it by");
  if (launch.insecure == !launch.ca_pem.empty()) {
    return absl::InvalidArgumentError(
        launch.insecure ? "a CA certificate has no meaning without TLS: leave one of the two out"
                        : "the machines need the CA certificate of the services (--tls-ca), or --insecure");
  }
  const auto digits = [](absl::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == absl::string_view::npos;
  };
  const size_t dash = std::min(launch.replica_uids.find('-'), launch.replica_uids.size());
  if (!digits(launch.replica_uids.substr(0, dash)) ||
      !digits(launch.replica_uids.substr(std::min(dash + 1, launch.replica_uids.size())))) {
    return Bad("replicaUids", launch.replica_uids, "write the first and the last as FIRST-LAST");
  }
  for (const WorkerMount& mount : launch.mounts) {
    if (mount.source.empty() || absl::StartsWith(mount.source, "-"))
      return Bad("mounts: source", mount.source, "name what is to be mounted");
    if (!absl::StartsWith(mount.target, "/") || mount.target.find(':') != std::string::npos)
      return Bad("mounts: target", mount.target, "give an absolute path without colons");
  }
  std::vector<std::string> texts = {launch.image, launch.binary, launch.supervisor, launch.tls_server_name,
                                    launch.storage_dir};
  texts.insert(texts.end(), launch.taints.begin(), launch.taints.end());
  texts.insert(texts.end(), launch.arguments.begin(), launch.arguments.end());
  for (const auto& [name, value] : launch.labels) texts.push_back(name + value);
  for (const WorkerMount& mount : launch.mounts)
    texts.push_back(mount.source + mount.target + mount.type + mount.options);
  for (const std::string& text : texts) {
    if (HasLineEnd(text)) return Bad("worker", text, "line ends can't stand here");
  }
  if (absl::StrContains(launch.ca_pem, "ADAPTDL-END")) return Bad("ca", "", "it is no certificate in PEM");
  return absl::OkStatus();
}

absl::StatusOr<std::string> MakeUserData(const WorkerLaunch& launch, const std::string& root) {
  if (const absl::Status status = CheckWorkerLaunch(launch); !status.ok()) return status;
  std::string script = absl::StrCat(
      "#!/bin/bash\n# Makes this machine a node of an AdaptDL cluster. There is nothing secret here.\n"
      "set -euo pipefail\numask 022\nmkdir -p ",
      Quote(root + "/etc/adaptdl"), " ", Quote(root + "/opt/adaptdl"), " ",
      Quote(root + "/var/lib/adaptdl/state"), " ", Quote(root + "/etc/systemd/system"), "\n");
  if (!launch.insecure) absl::StrAppend(&script, WriteFile(root + "/etc/adaptdl/ca.pem", launch.ca_pem));
  absl::StrAppend(&script, WriteFile(root + "/opt/adaptdl/start", StartScript(launch, root)), "chmod 755 ",
                  Quote(root + "/opt/adaptdl/start"), "\n",
                  WriteFile(root + "/etc/systemd/system/adaptdl-worker.service",
                            absl::StrReplaceAll(kUnit, {{"ROOT", root}})),
                  "systemctl daemon-reload\nsystemctl enable --now --no-block adaptdl-worker.service\n");
  const CloudWays& ways = WaysOf(launch);
  if (script.size() <= ways.max_user_data_bytes) return script;
  return absl::InvalidArgumentError(
      absl::StrCat("the script that starts the worker has ", script.size(), " bytes; ", ways.owner, " takes ",
                   ways.max_user_data_bytes, ": shorten the CA certificate, labels, mounts or arguments"));
}

}  // namespace adaptdl::autoscaler
