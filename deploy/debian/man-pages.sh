#!/usr/bin/env bash
# Makes the manual pages of programs, and of every command of adaptdl, from what they say by --help.
#
#   man-pages.sh PROGRAMS OUTPUT NAME...
#
# PROGRAMS is the folder of the programs, OUTPUT gets NAME.1.gz, and NAME-COMMAND.1.gz for each command of NAME.
set -euo pipefail

programs=${1:?man-pages.sh needs the folder of the programs}
output=${2:?man-pages.sh needs a folder for the pages}
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A link per program: the pages name it as it is called once it is installed.
export PATH=$work/bin:$PATH COLUMNS=80
mkdir -p "$work/bin" "$output"
rm -f "$output"/*.1.gz
version=$("$programs/$1" --version)
version=${version##* }

# Commands that the --help text on standard input names.
commands() { awk '/^[^ ]/ { inside = /^Subcommands:/; next } inside && /^  [^ ]/ { print $1 }'; }

# page PARENT WORDS...: the page of the program or command WORDS, and those of its commands.
page() {
  local parent=$1 help name summary command related include=()
  shift
  name=$(tr ' ' - <<<"$*")
  help=$("$@" --help)
  summary=$(head -n 1 <<<"$help")
  mapfile -t related < <(commands <<<"$help" | sed "s/^/$name-/")
  [[ -z $parent ]] || related=("$parent" "${related[@]}")
  if [[ ${#related[@]} -gt 0 ]]; then
    printf '[SEE ALSO]\n' >"$work/see-also"
    printf '.BR %s (1),\n' "${related[@]}" | sed '$s/,$//' >>"$work/see-also"
    include=("--include=$work/see-also")
  fi
  # Pages are called name-command. Defaults that lie beside the program do so where it is installed, too.
  help2man --no-info --section=1 --manual=AdaptDL --source="AdaptDL $version" --version-string="$version" \
    --name="${summary%.}" "${include[@]}" "$*" |
    sed -e "/^\.SH NAME/{n;s|^$* |$name |}" -e "s|$(realpath "$programs")/|/usr/bin/|g" | gzip -9 --no-name >"$output/$name.1.gz"
  for command in $(commands <<<"$help"); do page "$name" "$@" "$command"; done
}

for program in "$@"; do
  ln -s "$(realpath "$programs/$program")" "$work/bin/$program"
  page "" "$program"
done
