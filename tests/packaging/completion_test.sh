#!/usr/bin/env bash
# What bash, zsh and fish offer for an adaptdl command line that is being typed: each sources the command's own script. The
# supervisor that is asked for names is nowhere.
#
#   completion_test.sh PROGRAMS
set -euo pipefail

programs=${1:?completion_test.sh needs the folder of the programs}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH=$programs:$PATH HOME=$work ADAPTDL_SUPERVISOR_ADDRESS=127.0.0.1:1 ADAPTDL_INSECURE=1
touch "$work/job.yaml"
mkdir "$work/jobs"
cd "$work"

# What each shell offers for the words, the last of which is being typed: in order, with blanks between.

offers_of_bash() {
  # shellcheck disable=SC2016  # that shell expands
  bash --norc -c 'source <(adaptdl completion bash)
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _adaptdl
    printf "%s\n" "${COMPREPLY[@]}"' bash "$@"
}

offers_of_zsh() {
  # The functions that show what is offered are zsh's own where there is a terminal.
  # shellcheck disable=SC2016
  zsh -f -c 'autoload -Uz compinit && compinit -u -d "$HOME/.zcompdump"
    source <(adaptdl completion zsh)
    [[ $_comps[adaptdl] == _adaptdl ]] || { echo "zsh does not know it"; exit 1 }
    _describe() { local -a shown=("${(@P)2}"); print -rl -- "${(@)shown%%:*}" }
    _files() { print -rl -- "${words[CURRENT]}"*(N) }
    words=("$@") CURRENT=$#
    _adaptdl' zsh "$@"
}

offers_of_fish() {
  local line
  printf -v line '%q ' "${@:1:$#-1}"
  # shellcheck disable=SC2016
  fish --no-config -c 'adaptdl completion fish | source; complete --do-complete $argv[1]' "$line${!#}" | cut -f 1
}

# expect WANT WORDS...: typing the last of WORDS offers exactly WANT, in every shell.
expect() {
  local want=$1 shell got
  shift
  for shell in bash zsh fish; do
    got=$("offers_of_$shell" "$@" | sed '/^$/d' | sort -u | paste -sd ' ')
    [[ $got == "$want" ]] || { echo "error: '$*' offers '$got' in $shell, not '$want'"; exit 1; }
  done
}

expect "submit" adaptdl sub
expect "dashboard debug delete describe doctor drain" adaptdl d
expect "down" adaptdl cluster dow
expect "create list revoke" adaptdl admin token ""
expect "--max-replicas --max-restarts" adaptdl submit --max-r
expect "--namespace" adaptdl --namesp
expect "--namespace" adaptdl logs --namesp    # flags of all commands
expect "logs" adaptdl --namespace vision lo
expect "json" adaptdl ls --output js          # values that help lists
expect "start submitted" adaptdl ls --sort s
expect "bash fish zsh" adaptdl completion ""
expect "job.yaml" adaptdl submit job.         # files
expect "" adaptdl logs a                      # names that nobody says
expect "" adaptdl nonsense                    # not a command

# bash makes a word of its own of "=", the others do not.
[[ $(offers_of_bash adaptdl ls --sort = n) == name ]] || { echo "error: bash misses --sort=n"; exit 1; }
[[ $(offers_of_fish adaptdl ls --sort=n) == --sort=name ]] || { echo "error: fish misses --sort=n"; exit 1; }
echo "completion is fine"
