# Sourced by scripts that need a Docker engine: uses the one that runs, or starts a private one from Debian's docker.io
# with its own data, socket and process id file, and takes it away again.
#
#   engine_up FOLDER      FOLDER keeps images between runs; exits 77 (skipped) where no engine can run
#   engine_down           stops what engine_up has started; safe to call at any time
#   base_image FOLDER     leaves the name of a Debian 12 image in $BASE_IMAGE: pulled, or made by debootstrap and kept
#                         as an archive in FOLDER
#   compose ARGS...       Docker Compose, v2 or 1.29
#
# The caller defines say() and fail(), and sets "root" to the project's folder.
# shellcheck shell=bash
# shellcheck disable=SC2154  # root is the caller's

# shellcheck source=scripts/lib/debian-mirror.sh
source "$root/scripts/lib/debian-mirror.sh"

engine_pid=
engine_run=
engine_had_bridge=
engine_forwarding=
BASE_IMAGE=${BASE_IMAGE:-debian:bookworm-slim}

skip() {
  echo "SKIPPED: $*" >&2
  exit 77
}

engine_up() {
  if docker info >/dev/null 2>&1; then
    say "using the Docker engine that runs"
    compose_client
    return
  fi
  [[ $(id -u) -eq 0 ]] || skip "no Docker engine answers, and starting a private one needs root"
  "$root/scripts/setup.sh" --group engine
  compose_client
  engine_start "$1"
}

compose_client() {
  docker compose version >/dev/null 2>&1 || "$root/scripts/setup.sh" --group compose
}

# Starts dockerd with overlay2, or with vfs where the file system below can't carry it.
engine_start() {
  local data=$1/docker driver
  engine_run=$(mktemp -d /tmp/adaptdl-docker.XXXXXX)  # short: a socket's path has at most 107 characters
  export DOCKER_HOST=unix://$engine_run/docker.sock
  ip link show docker0 >/dev/null 2>&1 && engine_had_bridge=1
  engine_forwarding=$(cat /proc/sys/net/ipv4/ip_forward)
  iptables-save >"$engine_run/iptables" 2>/dev/null || skip "iptables does not work here, Docker's bridge needs it"
  for driver in overlay2 vfs; do
    mkdir -p "$data-$driver"
    dockerd --data-root "$data-$driver" --exec-root "$engine_run/exec" --pidfile "$engine_run/pid" \
      --host "$DOCKER_HOST" --storage-driver "$driver" >"$engine_run/log" 2>&1 &
    engine_pid=$!
    if engine_wait; then
      say "started a private Docker engine ($driver, data in $data-$driver)"
      return
    fi
  done
  tail -5 "$engine_run/log" >&2
  skip "a Docker engine can't run here"
}

engine_wait() {
  local i
  for ((i = 0; i < 60; i++)); do
    docker info >/dev/null 2>&1 && return 0
    kill -0 "$engine_pid" 2>/dev/null || return 1
    sleep 0.5
  done
  kill "$engine_pid"
  wait "$engine_pid" || true
  return 1
}

engine_down() {
  [[ -n $engine_pid ]] || return 0
  kill "$engine_pid" 2>/dev/null || true
  wait "$engine_pid" || true
  engine_pid=
  [[ -n $engine_had_bridge ]] || ip link delete docker0 2>/dev/null || true
  iptables-restore <"$engine_run/iptables" || true
  echo "$engine_forwarding" >/proc/sys/net/ipv4/ip_forward || true
  rm -rf "$engine_run"
  unset DOCKER_HOST
  say "stopped the private Docker engine"
}

base_image() {
  local archive=$1/debian-bookworm.tar.gz
  if docker image inspect "$BASE_IMAGE" >/dev/null 2>&1; then return; fi
  if [[ ! -f $archive ]] && timeout 60 docker pull "$BASE_IMAGE" >/dev/null 2>&1; then
    say "pulled $BASE_IMAGE"
    return
  fi
  BASE_IMAGE=adaptdl-base:bookworm
  if docker image inspect "$BASE_IMAGE" >/dev/null 2>&1; then return; fi
  [[ -f $archive ]] || base_archive "$archive"
  docker import "$archive" "$BASE_IMAGE" >/dev/null
  say "imported $BASE_IMAGE from $archive"
}

# Makes a minimal Debian 12 by debootstrap from the mirror that this machine uses itself.
base_archive() {
  [[ $(id -u) -eq 0 ]] || skip "$BASE_IMAGE can't be pulled, and making it by debootstrap needs root"
  "$root/scripts/setup.sh" --group debootstrap
  local tree=$1.tree
  say "making $BASE_IMAGE by debootstrap (about a minute)"
  rm -rf "$tree"
  mkdir -p "$(dirname "$1")"
  debootstrap --variant=minbase bookworm "$tree" "$(debian_mirror)" >"$1.log" 2>&1 ||
    { tail -5 "$1.log" >&2; skip "debootstrap failed, see $1.log: no Debian mirror within reach?"; }
  # What the slim image has, too: no documents, no translated indexes, no fsync after each file.
  rm -rf "$tree"/var/cache/apt/* "$tree"/var/lib/apt/lists/* "$tree"/usr/share/{doc,man,locale,info}/*
  printf 'path-exclude /usr/share/%s/*\n' doc man locale info >"$tree/etc/dpkg/dpkg.cfg.d/docker-slim"
  echo force-unsafe-io >"$tree/etc/dpkg/dpkg.cfg.d/docker-apt-speedup"
  echo 'Acquire::Languages "none";' >"$tree/etc/apt/apt.conf.d/docker-no-languages"
  tar -C "$tree" -czf "$1.part" .
  mv "$1.part" "$1"
  rm -rf "$tree"
}

compose() {
  if docker compose version >/dev/null 2>&1; then docker compose "$@"; else docker-compose "$@"; fi
}
