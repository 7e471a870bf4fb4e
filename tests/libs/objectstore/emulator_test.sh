#!/usr/bin/env bash
# Runs a test program with moto's server, which the first run installs; its address is in S3_ENDPOINT, and it has a bucket "models".
#
#   emulator_test.sh BUILD_FOLDER PROGRAM
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$("$here/../../venv.sh" "$1/venvs/moto-s3" "$here/requirements.txt")
exec "$python" "$here/emulator_test.py" "$2"
