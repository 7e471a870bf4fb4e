#!/usr/bin/env bash
# What an operator needs to take over a thousand jobs with five thousand pods, and what it asks of the API server in the five
# minutes after that, while their replicas beat and tell their hints (bench/kubernetes_bench.cc): against a double of the API
# server, nothing is trained. Seven minutes. Says what was measured, and fails if taking over took longer than ten seconds, or if
# anything was written but a changed hint.
#
#   scripts/bench-kubernetes.sh
#   scripts/bench-kubernetes.sh --jobs 50 --nodes 10 --seconds 60      other sizes
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac
cd "$root"
scripts/build.sh kubernetes_bench
exec build/release/bench/kubernetes_bench --check "$@"
