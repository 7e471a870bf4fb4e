#!/usr/bin/env bash
# Runs launch_test.py with moto's server, which the first run installs.
#
#   launch_test.sh BUILD_FOLDER
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$("$here/../../venv.sh" "$1/venvs/moto" "$here/../../services/autoscaler/providers/aws/requirements.txt")
exec "$python" "$here/launch_test.py" "$1/bin"
