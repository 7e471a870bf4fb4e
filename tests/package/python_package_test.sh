#!/usr/bin/env bash
# Installs the Python package as the container image has it, by "cmake --install", and asks it what it has found.
#
#   python_package_test.sh BUILD_DIR
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build_dir=${1:?python_package_test.sh needs the folder of the build}
/usr/bin/python3 -c 'import torch' 2>/dev/null || { echo "SKIPPED: /usr/bin/python3 has no PyTorch" >&2; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "python_package_test: error: $*" >&2; exit 1; }

# Where the image's Python is told to look.
folder=$(sed -n 's|.*echo /opt/adaptdl/\(\S*\) >/usr/lib/python3/dist-packages/adaptdl.pth.*|\1|p' "$root/deploy/docker/Dockerfile")
[[ -n $folder ]] || fail "the Dockerfile does not tell Python where the package is"
cmake --install "$build_dir" --prefix "$work/installed" --component python --strip >"$work/install.log"
# Moved: nothing in it may name the folder it was installed into, or built in.
mv "$work/installed" "$work/prefix"
! grep -rIl -e "$work/installed" -e "$build_dir" "$work/prefix" || fail "the package names folders of this machine, see above"
! readelf -d "$work/prefix/$folder"/adaptdl/*.so | grep "$build_dir" || fail "its libraries look for others in the build"

cd "$work"
PYTHONPATH=$work/prefix/$folder /usr/bin/python3 -m adaptdl
PYTHONPATH=$work/prefix/$folder /usr/bin/python3 "$root/examples/python-mnist/mnist.py" --samples 300 --epochs 1 |
  grep "epoch 0: test accuracy"
