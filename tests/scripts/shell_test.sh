#!/usr/bin/env bash
# Every shell script parses; where shellcheck is installed, it has nothing to say either.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mapfile -t files < <(find .ci scripts deploy tests examples -type f \( -name '*.sh' -o -path '.ci/run' \) | sort)
[[ ${#files[@]} -ge 5 ]] || { echo "error: only ${#files[@]} scripts found"; exit 1; }
for file in "${files[@]}"; do
  bash -n "$file"
  [[ $file == scripts/lib/* || -x $file ]] || { echo "error: $file is not executable"; exit 1; }
done
if command -v shellcheck >/dev/null; then
  shellcheck --external-sources "${files[@]}"
else
  echo "shellcheck is not installed: checked the syntax only"
fi
echo "${#files[@]} scripts are fine"
