#!/usr/bin/env bash
# Checks what compilers let through: clang-format, shellcheck, and clang-tidy (slow: a minute per file that includes
# LibTorch).
#
#   scripts/lint.sh                 everything
#   scripts/lint.sh --format-only   only clang-format and shellcheck
#   scripts/lint.sh FILE...         clang-tidy only for these sources
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
tidy=1
sources=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --format-only) tidy= ;;
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    -*) echo "lint: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
    *) sources+=("$1") ;;
  esac
  shift
done

scripts/setup.sh --group build --group lint
failed=0

mapfile -t all < <(git ls-files --cached --others --exclude-standard '*.cc' '*.h' | sort)
echo "lint: clang-format, ${#all[@]} files"
clang-format --dry-run --Werror "${all[@]}" || failed=1

echo "lint: shell scripts"
tests/scripts/shell_test.sh || failed=1

if [[ -n $tidy ]]; then
  build=build/release
  [[ -f $build/compile_commands.json ]] || cmake --preset release
  cmake --build --preset release --target adaptdl_proto  # generated headers
  if [[ ${#sources[@]} -eq 0 ]]; then
    mapfile -t sources < <(git ls-files --cached --others --exclude-standard '*.cc' | sort)
  fi
  echo "lint: clang-tidy, ${#sources[@]} files"
  printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p "$build" --quiet || failed=1
fi

[[ $failed -eq 0 ]] || { echo "lint: there are findings above" >&2; exit 1; }
echo "lint: nothing to say"
