#!/usr/bin/env bash
# Writes docs/metrics.md: every metric that the programs show, as the code says.
#
#   scripts/update-metrics-docs.sh [--preset release|debug|asan|tsan]
#
# Needs a configured build (scripts/build.sh).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=release
while [[ $# -gt 0 ]]; do
  case $1 in
    --preset) preset=${2:?--preset needs a name}; shift ;;
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    *) echo "update-metrics-docs.sh: unknown argument \"$1\"; see --help" >&2; exit 2 ;;
  esac
  shift
done

cd "$root"
cmake --build --preset "$preset" --target metric_families
page=$(mktemp "docs/.metrics.md.XXXXXX")
trap 'rm -f "$page"' EXIT
"build/$preset/bin/metric_families" > "$page"
chmod 644 "$page"
mv "$page" docs/metrics.md
git --no-pager diff --stat -- docs/metrics.md
