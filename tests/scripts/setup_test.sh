#!/usr/bin/env bash
# scripts/setup.sh: reads every group of its list, refuses what it does not know, and changes nothing by --dry-run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
unset ADAPTDL_SKIP_SETUP

expect_failure() {
  local want=$1 output
  shift
  if output=$("$@" 2>&1); then echo "error: '$*' should have failed"; exit 1; fi
  [[ $output == *"$want"* ]] || { echo "error: '$*' said '$output', not '$want'"; exit 1; }
}

mapfile -t groups < <(sed -n 's/^\[\([a-z]*\)\].*/\1/p' scripts/packages.txt)
for group in "${groups[@]}"; do
  scripts/setup.sh --dry-run --group "$group"
done
duplicates=$(awk '{ sub(/#.*/, "") } /^\[/ { group = $1; next } NF { print group, $1 }' scripts/packages.txt | sort | uniq -d)
[[ -z $duplicates ]] || { echo "error: listed twice: $duplicates"; exit 1; }
expect_failure "no group 'nonsense'" scripts/setup.sh --dry-run --group nonsense
expect_failure "unknown argument '--nonsense'" scripts/setup.sh --nonsense
ADAPTDL_SKIP_SETUP=1 scripts/setup.sh --group build | grep -q skipped
