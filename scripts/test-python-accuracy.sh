#!/usr/bin/env bash
# Programs that were written for AdaptDL learn MNIST's digits on the Python package, with three seeds: alone, with three
# replicas, and on a cluster where their replicas change and one is killed; each must be as accurate as a plain loop of PyTorch,
# to 0.3 points in the mean. Writes the table of docs/results.md. Takes half an hour on two cores; the test has a short version.
#
#   scripts/test-python-accuracy.sh
#   scripts/test-python-accuracy.sh --seeds 5 --epochs 10
#   scripts/test-python-accuracy.sh --page /dev/null       tells the figures, and writes no table
#
# Exits with 77 (skipped) where MNIST's test images are not in ../shared/data/mnist.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac
"$root/scripts/build.sh" integration_python_accuracy_test
exec /usr/bin/python3 "$root/scripts/lib/results/python_accuracy.py" "$@"
