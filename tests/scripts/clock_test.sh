#!/usr/bin/env bash
# Code is given its clock (libs/base/clock.h): but for libs/base and main functions, none asks the machine what time it
# is, and none sleeps. The list below is of those that still do; it only gets shorter. libs/elastic and
# services/supervisor are not held to it yet.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Waits for something outside, in the only thread that has anything to do.
known=(
  cli/client.cc
  cli/client.h
  cli/cluster/down.cc
  cli/cluster/up.cc
  cli/commands/events.cc
  cli/follow.cc
  libs/comm/nccl_communicator.cc
  services/worker/worker.cc
)

found=$(grep -rlE --include='*.cc' --include='*.h' 'absl::Now\(|absl::SleepFor\(|system_clock::now\(|sleep_for\(|\<usleep\(' \
  cli libs services simulator | grep -vE '^libs/(base|elastic)/|^services/supervisor/|/main\.cc$' | LC_ALL=C sort)
new=$(LC_ALL=C comm -23 <(echo "$found") <(printf '%s\n' "${known[@]}" | LC_ALL=C sort))
if [[ -n $new ]]; then
  echo "error: these ask the machine for the time, or sleep: take a Clock as an argument instead"
  echo "$new"
  exit 1
fi
gone=$(LC_ALL=C comm -13 <(echo "$found") <(printf '%s\n' "${known[@]}" | LC_ALL=C sort))
if [[ -n $gone ]]; then
  echo "error: these no longer do: take them off the list in $0"
  echo "$gone"
  exit 1
fi
echo "no other than ${#known[@]} known files ask the machine for the time"
