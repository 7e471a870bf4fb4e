#!/usr/bin/env bash
# Checks what compilers let through: clang-format, shellcheck, the structure of the sources (scripts/lib/structure.toml), and
# clang-tidy (slow: a minute per file that includes LibTorch).
#
#   scripts/lint.sh                  everything
#   scripts/lint.sh --format-only    all but clang-tidy
#   scripts/lint.sh --since COMMIT   clang-tidy only for sources that changed since, or include a header that did
#   scripts/lint.sh FILE...          clang-tidy only for these sources
#   scripts/lint.sh --jobs N ...     so many clang-tidy at a time, not one per core
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
tidy=1
since=
jobs=$(nproc)
sources=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --format-only) tidy= ;;
    --since) since=${2:?--since needs a commit}; shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    -*) echo "lint: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
    *) sources+=("$1") ;;
  esac
  shift
done

# Prints the sources that differ from commit $1, and those that include a header that does.
changed_since() {
  local base=$1 file headers=()
  mapfile -t headers < <(changed_files "$base" '*.h')
  {
    changed_files "$base" '*.cc'
    for file in "${headers[@]}"; do
      # Public headers are included without the folder that holds them.
      git grep --untracked -l -F -e "\"${file##*/include/}\"" -- '*.cc' || true
    done
  } | sort -u
}
changed_files() {
  git diff --name-only --diff-filter=d "$1" -- "$2"
  git ls-files --others --exclude-standard -- "$2"
}
if [[ -n $since ]]; then
  git rev-parse --quiet --verify "$since^{commit}" >/dev/null ||
    { echo "lint: error: there is no commit '$since'" >&2; exit 2; }
fi

scripts/setup.sh --group build --group lint
failed=0

mapfile -t all < <(git ls-files --cached --others --exclude-standard '*.cc' '*.h' | sort)
echo "lint: clang-format, ${#all[@]} files"
clang-format --dry-run --Werror "${all[@]}" || failed=1

echo "lint: shell scripts"
tests/scripts/shell_test.sh || failed=1

echo "lint: structure"
/usr/bin/python3 scripts/lib/structure.py || failed=1

if [[ -n $tidy ]]; then
  build=build/lint  # each source by itself
  cmake --preset release -B "$build" -DADAPTDL_UNITY=OFF
  cmake --build "$build" --target adaptdl_generated_sources
  if [[ -n $since ]]; then
    mapfile -t sources < <(changed_since "$since")
  elif [[ ${#sources[@]} -eq 0 ]]; then
    mapfile -t sources < <(git ls-files --cached --others --exclude-standard '*.cc' | sort)
  fi
  echo "lint: clang-tidy, ${#sources[@]} files"
  # Some commands name warnings that GCC alone has.
  [[ ${#sources[@]} -eq 0 ]] || printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$jobs" clang-tidy -p "$build" --extra-arg=-Wno-unknown-warning-option --quiet || failed=1
fi

[[ $failed -eq 0 ]] || { echo "lint: there are findings above" >&2; exit 1; }
echo "lint: nothing to say"
