#!/usr/bin/env bash
# Feeds parsers of what comes from outside with inputs that libFuzzer makes up: job files, quantities, messages to the
# supervisor, hints in JSON, tokens and who may issue them, files of checkpoints, answers of Kubernetes, archives of folders
# and rules of what they leave out. Needs Clang. A finding ends it, and the input that led to it is named.
#
#   scripts/fuzz.sh                        10 minutes each
#   scripts/fuzz.sh --seconds 60           ... a minute each
#   scripts/fuzz.sh quantity job_file      only these
#
# What it learns is kept in build/fuzz/corpus, for the next run.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
seconds=600
names=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    -*) echo "fuzz: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
    *) names+=("$1") ;;
  esac
  shift
done
if [[ ${#names[@]} -eq 0 ]]; then
  for source in "$root"/tests/fuzz/*_fuzzer.cc; do names+=("$(basename "$source" _fuzzer.cc)"); done
fi
for name in "${names[@]}"; do
  [[ -f $root/tests/fuzz/${name}_fuzzer.cc ]] || { echo "fuzz: error: there is no fuzzer '$name'" >&2; exit 2; }
done
cd "$root"
scripts/setup.sh --group build --group fuzz
scripts/build.sh --preset fuzz "${names[@]/%/_fuzzer}"

# fuzz NAME: one fuzzer, its output in a file.
fuzz() {
  local name=$1
  local corpora=("build/fuzz/corpus/$name")
  mkdir -p "${corpora[0]}" build/fuzz/findings
  if [[ -d tests/fuzz/corpus/$name ]]; then corpora+=("tests/fuzz/corpus/$name"); fi
  "build/fuzz/fuzz/${name}_fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/findings/$name-" "${corpora[@]}" >"build/fuzz/$name.log" 2>&1 || {
    tail -n 50 "build/fuzz/$name.log" >&2
    echo "fuzz: error: $name found something, see above; the input is in build/fuzz/findings" >&2
    return 1
  }
  echo "fuzz: $name, $seconds s: $(awk '/number_of_executed_units/ { print $2 }' "build/fuzz/$name.log") inputs, nothing found"
}
export -f fuzz
export seconds

echo "fuzz: ${names[*]}, $seconds s each, $(nproc) at a time"
printf '%s\n' "${names[@]}" | xargs -P "$(nproc)" -I '{}' bash -c 'set -euo pipefail; fuzz {}' || exit 1
echo "fuzz: nothing was found"
