#!/usr/bin/env bash
# Records new elements of the public protocol (proto/adaptdl/v1) in tests/proto/contract.txt.
#
#   scripts/update-contract.sh [--preset release|debug|asan|tsan]
#
# Refuses when a recorded element was removed or changed: that would break clients. Needs a configured build
# (scripts/build.sh).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=release
while [[ $# -gt 0 ]]; do
  case $1 in
    --preset) preset=${2:?--preset needs a name}; shift ;;
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    *) echo "update-contract.sh: unknown argument \"$1\"; see --help" >&2; exit 2 ;;
  esac
  shift
done

cd "$root"
cmake --build --preset "$preset" --target proto_contract_test
ADAPTDL_UPDATE_CONTRACT=1 "build/$preset/tests/proto_contract_test" \
  --gtest_filter=ProtocolTest.StaysCompatibleWithWhatWasPromised
git --no-pager diff --stat -- tests/proto/contract.txt
