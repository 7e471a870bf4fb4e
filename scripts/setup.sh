#!/usr/bin/env bash
# Installs the Debian 12 packages of scripts/packages.txt that are missing. Safe to run again at any time.
#
#   scripts/setup.sh                    what building and testing needs
#   scripts/setup.sh --runtime          only what the built programs need (the container image)
#   scripts/setup.sh --group NAME ...   only these groups of packages.txt
#   scripts/setup.sh --dry-run ...      says what it would do
#
# Runs as root or through sudo. ADAPTDL_SKIP_SETUP=1 makes it do nothing, for systems set up by other means.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
list="$here/packages.txt"

say() { echo "setup: $*"; }
fail() { echo "setup: error: $*" >&2; exit 1; }
usage() { sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; }

groups=()
dry_run=
while [[ $# -gt 0 ]]; do
  case $1 in
    --runtime) groups=(runtime) ;;
    --group) [[ $# -ge 2 ]] || fail "--group needs a name"; groups+=("$2"); shift ;;
    --dry-run) dry_run=1 ;;
    -h|--help) usage; exit 0 ;;
    *) fail "unknown argument '$1'; see $0 --help" ;;
  esac
  shift
done
[[ ${#groups[@]} -gt 0 ]] || groups=(build test)

if [[ -n ${ADAPTDL_SKIP_SETUP:-} ]]; then
  say "skipped, ADAPTDL_SKIP_SETUP is set"
  exit 0
fi

# Prints "package [unless:command]" for each line of group $1.
packages_of() {
  awk -v group="[$1]" '
    { sub(/#.*/, ""); gsub(/[ \t]+/, " "); sub(/^ /, ""); sub(/ $/, "") }
    /^\[/ { inside = ($1 == group); seen = seen || inside; next }
    inside && NF { print }
    END { exit !seen }' "$list"
}

installed() { [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# shellcheck source=/dev/null
os=$(. /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}") || os=unknown
[[ $os == "debian 12" ]] || fail "this script knows Debian 12, and this is '$os'; install what $list names by hand," \
  "then set ADAPTDL_SKIP_SETUP=1"

missing=()
present=0
for group in "${groups[@]}"; do
  lines=$(packages_of "$group") || fail "no group '$group' in $list"
  while read -r package condition; do
    if installed "$package"; then
      present=$((present + 1))
    elif [[ $condition == unless:* ]] && command -v "${condition#unless:}" >/dev/null; then
      say "skipping $package: $(command -v "${condition#unless:}") is there"
      present=$((present + 1))
    else
      missing+=("$package")
    fi
  done <<<"$lines"
done

if [[ ${#missing[@]} -eq 0 ]]; then
  say "${groups[*]}: all $present packages are installed, nothing to do"
  exit 0
fi
say "${groups[*]}: $present packages are installed; installing ${#missing[@]}: ${missing[*]}"
[[ -z $dry_run ]] || exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || fail "installing needs root: run '$0 ${groups[*]/#/--group }' as root, or install sudo"
  as_root=(sudo)
fi
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -q)
"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends "${missing[@]}"
say "done"
