#!/usr/bin/env bash
# What bash offers for an adaptdl command line that is being typed.
#
#   completion_test.sh PROGRAMS
set -euo pipefail

programs=${1:?completion_test.sh needs the folder of the programs}
export PATH=$programs:$PATH
# shellcheck source=deploy/debian/bash-completion/adaptdl
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/debian/bash-completion/adaptdl"

# expect WANT WORDS...: typing the last of WORDS offers exactly WANT.
expect() {
  local want=$1
  shift
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _adaptdl
  [[ "${COMPREPLY[*]}" == "$want" ]] || { echo "error: '$*' offers '${COMPREPLY[*]}', not '$want'"; exit 1; }
}

expect "submit" adaptdl sub
expect "delete describe drain" adaptdl d
expect "down" adaptdl cluster dow
expect "create list revoke" adaptdl admin token ""
expect "--max-replicas --max-restarts" adaptdl submit --max-r
expect "--namespace" adaptdl --namesp
expect "--namespace" adaptdl logs --namesp    # flags of all commands
expect "logs" adaptdl --namespace vision lo
expect "" adaptdl submit --name a -- d        # files, by bash itself
expect "" adaptdl nonsense                    # not a command
echo "completion is fine"
