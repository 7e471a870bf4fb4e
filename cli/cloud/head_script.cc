#include "cli/cloud/head_script.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace adaptdl::cli {
namespace {

constexpr size_t kMaxUserDataBytes = 16 << 10;
constexpr char kEnd[] = "ADAPTDL-END";

// As one word of a shell.
std::string Quote(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// What runs on the head, by its first argument. The lines above it say CLUSTER, PORT and IMAGE.
constexpr char kHead[] = R"(
security=/etc/adaptdl/security
run() {
  if [ -z "$IMAGE" ]; then
    "$@"
  else
    docker run --rm --network host --user 0:0 --no-healthcheck -v /etc/adaptdl:/etc/adaptdl -v /var/lib/adaptdl:/var/lib/adaptdl "$IMAGE" "$@"
  fi
}
address() {
  metadata=http://169.254.169.254/latest
  ask() { curl --silent --show-error --fail --noproxy '*' --max-time 5 --retry 10 --retry-connrefused "$@"; }
  token=$(ask -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$metadata/api/token")
  ask -H "X-aws-ec2-metadata-token: $token" "$metadata/meta-data/local-ipv4"
}
service() {
  name=$1
  shift
  exec_run() { if [ -z "$IMAGE" ]; then exec "$@"; else run "$@"; fi; }
  exec_run "adaptdl-$name" --tls-ca="$security/ca.pem" --tls-cert="$security/$name/cert.pem" --tls-key="$security/$name/key.pem" "$@"
}
case $1 in
  prepare)
    run adaptdl admin certificates --out "$security" --node-authority
    if [ ! -s "$security/admin.token" ]; then
      rm -f "$security/tokens.json"
      (umask 077 && run adaptdl admin token create --file "$security/tokens.json" --name admin --role admin >"$security/admin.token.new")
      mv "$security/admin.token.new" "$security/admin.token"
    fi
    ;;
  announce)
    run adaptdl cloud announce --cluster-name "$CLUSTER" --recipient /etc/adaptdl/recipient.pem --authority "$security/ca.pem" --admin-token-file "$security/admin.token"
    ;;
  supervisor)
    service supervisor --listen="$(address):$PORT" --metrics-listen=127.0.0.1:7200 --state-dir=/var/lib/adaptdl/supervisor \
      --token-file="$security/tokens.json" --node-authority-cert="$security/node-authority/cert.pem" --node-authority-key="$security/node-authority/key.pem"
    ;;
  allocator)
    service allocator --listen=127.0.0.1:7101 --metrics-listen=127.0.0.1:7201 --supervisor="$(address):$PORT"
    ;;
  autoscaler)
    service autoscaler --listen=127.0.0.1:7102 --metrics-listen=127.0.0.1:7202 --supervisor="$(address):$PORT" --allocator=127.0.0.1:7101 \
      --pools=/etc/adaptdl/pools.yaml --state-dir=/var/lib/adaptdl/autoscaler
    ;;
esac
)";

// NAME: the service. Jobs never run here, so that nothing but the services has root's rights.
constexpr char kUnit[] = R"([Unit]
Description=AdaptDL NAME of this cluster
Wants=network-online.target
After=network-online.target docker.service
[Service]
ExecStart=/opt/adaptdl/head NAME
Restart=always
RestartSec=2
NoNewPrivileges=yes
ProtectSystem=full
ProtectHome=yes
PrivateTmp=yes
[Install]
WantedBy=multi-user.target
)";

// At each start, as a console forgets what it showed before.
constexpr char kAnnounceUnit[] = R"([Unit]
Description=Tells who has launched this AdaptDL cluster how to reach it
After=docker.service
[Service]
Type=oneshot
ExecStart=/opt/adaptdl/head announce
StandardOutput=journal+console
[Install]
WantedBy=multi-user.target
)";

std::string WriteFile(absl::string_view path, absl::string_view text) {
  return absl::StrCat("cat > ", path, " <<'", kEnd, "'\n", text, absl::EndsWith(text, "\n") ? "" : "\n", kEnd,
                      "\n");
}

}  // namespace

absl::StatusOr<std::string> MakeHeadScript(const ClusterFile& cluster,
                                           absl::string_view recipient_certificate) {
  const std::string head = absl::StrCat(
      "#!/bin/bash\n# Runs the AdaptDL services of this machine. Written by cloud-init.\nset -euo "
      "pipefail\nCLUSTER=",
      Quote(cluster.name), "\nPORT=", cluster.head.port, "\nIMAGE=", Quote(cluster.head.service_image),
      kHead);
  std::string script = absl::StrCat(
      "#!/bin/bash\n# Makes this machine the head of an AdaptDL cluster. There is nothing secret here.\n"
      "set -euo pipefail\numask 022\n"
      "mkdir -p /etc/adaptdl /opt/adaptdl /var/lib/adaptdl /etc/systemd/system\n",
      WriteFile("/etc/adaptdl/pools.yaml", cluster.pools_text),
      WriteFile("/etc/adaptdl/recipient.pem", recipient_certificate), WriteFile("/opt/adaptdl/head", head),
      "chmod 755 /opt/adaptdl/head\n/opt/adaptdl/head prepare\n");
  for (const char* service : {"supervisor", "allocator", "autoscaler"}) {
    absl::StrAppend(&script, WriteFile(absl::StrCat("/etc/systemd/system/adaptdl-head-", service, ".service"),
                                       absl::StrReplaceAll(kUnit, {{"NAME", service}})));
  }
  absl::StrAppend(&script, WriteFile("/etc/systemd/system/adaptdl-head-announce.service", kAnnounceUnit),
                  "systemctl daemon-reload\n"
                  "systemctl enable --now --no-block adaptdl-head-supervisor.service "
                  "adaptdl-head-allocator.service adaptdl-head-autoscaler.service "
                  "adaptdl-head-announce.service\n");
  if (absl::StrContains(cluster.pools_text, kEnd) || absl::StrContains(recipient_certificate, kEnd))
    return absl::InvalidArgumentError(absl::StrCat("workers: ", kEnd, " can't stand here"));
  if (script.size() <= kMaxUserDataBytes) return script;
  return absl::InvalidArgumentError(absl::StrCat("the script that starts the head has ", script.size(),
                                                 " bytes; Amazon takes ", kMaxUserDataBytes,
                                                 ": shorten the pools of the file"));
}

}  // namespace adaptdl::cli
