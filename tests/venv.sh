#!/usr/bin/env bash
# Makes a virtual environment of Python packages that tests run with, and keeps it between runs.
#
#   venv.sh FOLDER REQUIREMENTS [OPTIONS...]     OPTIONS are venv's; prints the path of the environment's python
#
# Exits with 77 (skipped) where no environment can be made or the Python registry is out of reach.
set -euo pipefail
venv=$1
requirements=$2
shift 2

skip() { echo "SKIPPED: $*" >&2; exit 77; }

mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9  # tests may run at the same time
if ! cmp -s "$requirements" "$venv/requirements.txt"; then
  rm -rf "$venv"
  /usr/bin/python3 -m venv "$@" "$venv" >&2 || skip "no virtual environment can be made"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" >&2 ||
    skip "the Python registry, which has the packages of $requirements, is out of reach"
  cp "$requirements" "$venv/requirements.txt"
fi
echo "$venv/bin/python"
