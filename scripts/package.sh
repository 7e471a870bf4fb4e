#!/usr/bin/env bash
# Makes Debian packages, for this release of Debian and this machine's architecture:
#
#   adaptdl-cli       the adaptdl command
#   adaptdl-services  supervisor, allocator, autoscaler and worker, with systemd units
#   libadaptdl-dev    the training library, for Debian's LibTorch
#   libadaptdl-client-dev  the client library for C++ programs
#
#   scripts/package.sh [--output DIR] [--revision N] [--build-dir DIR] [--check-training] [PACKAGE...]
#
# Without a PACKAGE it makes all four; only what they hold is built. They land in build/packages, or --output. Their version
# is that of the project, with the Debian revision --revision (1): a higher one replaces an installed package of the same
# version. --build-dir names a build to take the programs from, instead of the optimised one, which is set up and built.
# --check-training installs libadaptdl-dev in a fresh Debian and builds a program with it there: root, a mirror, 6 GB of disk
# and some minutes.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
output=$root/build/packages
revision=1
build_dir=
check_training=
packages=()
declare -A components=([adaptdl-cli]=cli [adaptdl-services]=services [libadaptdl-dev]=training
  [libadaptdl-client-dev]=client)

say() { echo "package: $*"; }
fail() { echo "package: error: $*" >&2; exit 1; }
while [[ $# -gt 0 ]]; do
  case $1 in
    --output) output=${2:?--output needs a folder}; shift ;;
    --revision) revision=${2:?--revision needs a number}; shift ;;
    --build-dir) build_dir=$(cd "${2:?--build-dir needs a folder}" && pwd); shift ;;
    --check-training) check_training=1 ;;
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    -*) echo "package: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
    *) [[ -n ${components[$1]:-} ]] || { echo "package: error: there is no package '$1'; see $0 --help" >&2; exit 2; }
      packages+=("$1") ;;
  esac
  shift
done
if [[ ${#packages[@]} -eq 0 ]]; then packages=(adaptdl-cli adaptdl-services libadaptdl-dev libadaptdl-client-dev); fi
if [[ -n $check_training && " ${packages[*]} " != *" libadaptdl-dev "* ]]; then packages+=(libadaptdl-dev); fi
[[ $revision =~ ^[0-9][0-9a-zA-Z.+~]*$ ]] || fail "--revision '$revision' is not valid: give a number, such as 2"

"$root/scripts/setup.sh" --group package
wanted=()
for package in "${packages[@]}"; do wanted+=("${components[$package]}"); done
if [[ -z $build_dir ]]; then
  "$root/scripts/build.sh" "${wanted[@]/#/package_}"
  build_dir=$root/build/release
else
  cmake --build "$build_dir" --target "${wanted[@]/#/package_}"
fi

mkdir -p "$output"
output=$(cd "$output" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
list=$(IFS=';' && echo "${wanted[*]}")
cpack --config "$build_dir/CPackConfig.cmake" -G DEB -B "$work" -D "CPACK_COMPONENTS_ALL=$list" \
  -D "CPACK_DEBIAN_PACKAGE_RELEASE=$revision" >"$work/log" 2>&1 || fail "CPack: $(tail -n 20 "$work/log")"
for file in "$work"/*.deb; do
  mv "$file" "$output/"
  say "made $output/${file##*/}"
done

if [[ -n $check_training ]]; then
  exec "$root/tests/packaging/training_package_test.py" "$output"/libadaptdl-dev_*-"${revision}"_*.deb
fi
