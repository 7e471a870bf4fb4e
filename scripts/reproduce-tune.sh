#!/usr/bin/env bash
# Runs searches of hyper-parameters by the real services of a cluster on this machine, and writes the tables and the plot of
# docs/results.md: elastic trials beside those with a fixed number of slots, and what a search finds on handwritten digits. Takes
# about an hour on two cores.
#
#   scripts/reproduce-tune.sh ARTIFACT DATA [--seeds N] [--quick | --only slots|digits | --only-page]
#
# ARTIFACT: the folder of Pollux's published artifact, whose step times and gradients the trials of the first part play. DATA: a
# folder with the 10,000 test images of MNIST, t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz. --quick only sees whether
# it runs. Runs that an earlier call has finished are not run again (build/tune).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:-} in
  ''|-h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
esac

"$root/scripts/build.sh" played_trial adaptdl adaptdl-supervisor adaptdl-allocator adaptdl-worker adaptdl-shim adaptdl_python
exec /usr/bin/python3 "$root/scripts/lib/results/tune.py" --build "$root/build/release" "$@"
