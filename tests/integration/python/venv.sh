#!/usr/bin/env bash
# Makes the virtual environment that examples/python-mnist runs in: Debian's PyTorch, and requirements.txt from the
# Python registry. Kept between runs.
#
#   venv.sh FOLDER     prints the path of its python
#
# Exits with 77 where PyTorch is missing or the registry is out of reach.
set -euo pipefail
requirements=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)/examples/python-mnist/requirements.txt
venv=$1/python-venv

skip() { echo "SKIPPED: $*" >&2; exit 77; }

/usr/bin/python3 -c 'import torch' 2>/dev/null || skip "no PyTorch for /usr/bin/python3; scripts/setup.sh installs one"
if ! cmp -s "$requirements" "$venv/requirements.txt"; then
  rm -rf "$venv"
  /usr/bin/python3 -m venv --system-site-packages "$venv" >&2 || skip "no venv can be made"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" >&2 ||
    skip "the Python registry, which has the package adaptdl, is out of reach"
  cp "$requirements" "$venv/"
fi
echo "$venv/bin/python"
