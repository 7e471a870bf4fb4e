#!/usr/bin/env bash
# Runs s3_emulator_test with moto's server, which the first run installs.
#
#   emulator_test.sh BUILD_FOLDER
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$("$here/../../venv.sh" "$1/venvs/moto-s3" "$here/requirements.txt")
exec "$python" "$here/emulator_test.py" "$1/tests/s3_emulator_test"
