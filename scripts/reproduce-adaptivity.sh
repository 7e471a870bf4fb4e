#!/usr/bin/env bash
# Trains small models on handwritten digits with fixed batch sizes and with the one that goodput chooses, and with and
# without re-scales, and writes the tables and the plot of docs/results.md. Takes about half an hour on two cores.
#
#   scripts/reproduce-adaptivity.sh DATA [--seeds N] [--quick | --only-accuracy]
#
# DATA: a folder with the 10,000 test images of MNIST, t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz. --quick only
# sees whether it runs; --only-accuracy leaves the times as they are. The part with a slow link needs network namespaces (root, or user namespaces) and /dev/net/tun.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  ''|-h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac

"$root/scripts/build.sh" adaptivity_bench rescaled_run
exec /usr/bin/python3 "$root/scripts/lib/results/adaptivity.py" --program "$root/build/release/bench/adaptivity_bench" "$@"
