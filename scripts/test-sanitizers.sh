#!/usr/bin/env bash
# Builds the tests with a sanitizer and runs them: "asan" is AddressSanitizer with UndefinedBehaviorSanitizer, "tsan" is
# ThreadSanitizer. The last lines are ctest's summary.
#
#   scripts/test-sanitizers.sh                 all tests with both
#   scripts/test-sanitizers.sh asan|tsan       ... with one of them; cmake/Sanitizers.cmake says what "tsan" leaves out
#   scripts/test-sanitizers.sh asan -R worker  only these tests run; all are built
#   scripts/test-sanitizers.sh --quick         threads, locks, files and messages, without LibTorch and gRPC
#
# --quick compiles about twenty sources with each sanitizer, everything else about four hundred.
# --jobs N: compilers at a time. Further arguments are ctest's.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
presets=()
quick=
build_args=()
ctest_args=()
while [[ $# -gt 0 ]]; do
  case $1 in
    asan|tsan) presets+=("$1") ;;
    --quick) quick=1 ;;
    --jobs) build_args+=(--jobs "${2:?--jobs needs a number}"); shift ;;
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    *) ctest_args+=("$1") ;;
  esac
  shift
done
[[ ${#presets[@]} -gt 0 ]] || presets=(asan tsan)
cd "$root"

# Quick are those that find most for the time they take to compile: threads, locks, files, and what comes in over
# sockets.
# shellcheck disable=SC2034  # both are used by name, below
quick_asan=(base_test comm_in_process_communicator_test comm_membership_test comm_tcp_rendezvous_test)
# shellcheck disable=SC2034
quick_tsan=(base_test comm_in_process_communicator_test comm_membership_test comm_tcp_rendezvous_test)

failed=()
for preset in "${presets[@]}"; do
  declare -n quick_tests=quick_$preset
  targets=(all_tests)
  only=()
  if [[ -n $quick ]]; then
    targets=("${quick_tests[@]}")
    only=(-R "^($(IFS='|'; echo "${quick_tests[*]}"))/")
  fi
  echo "sanitizers: $preset, ${targets[*]}"
  scripts/build.sh --preset "$preset" "${build_args[@]}" "${targets[@]}"
  ctest --preset "$preset" --parallel "$(nproc)" "${only[@]}" "${ctest_args[@]}" || failed+=("$preset")
done
[[ ${#failed[@]} -eq 0 ]] || { echo "sanitizers: error: tests failed with ${failed[*]}, see above" >&2; exit 1; }
