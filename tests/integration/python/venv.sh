#!/usr/bin/env bash
# Makes the virtual environment that examples/python-mnist runs in: Debian's PyTorch, and requirements.txt from the
# Python registry. Kept between runs.
#
#   venv.sh FOLDER     prints the path of its python
#
# Exits with 77 where PyTorch is missing or the registry is out of reach.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
if ! /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  echo "SKIPPED: no PyTorch for /usr/bin/python3; scripts/setup.sh installs one" >&2
  exit 77
fi
exec "$root/tests/venv.sh" "$1/python-venv" "$root/examples/python-mnist/requirements.txt" --system-site-packages
