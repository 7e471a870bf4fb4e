#!/usr/bin/env bash
# Makes the wheel of the Python package, "adaptdl-elastic": one for all Pythons from 3.9 on, with all libraries that it needs
# but the C library and GCC's.
#
#   scripts/package-python.sh [--output DIR] [--build-dir DIR]
#
# It lands in build/packages, or --output. --build-dir names a build to take the libraries from, instead of the optimised
# one, which is set up and built.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
output=$root/build/packages
build_dir=

while [[ $# -gt 0 ]]; do
  case $1 in
    --output) output=${2:?--output needs a folder}; shift ;;
    --build-dir) build_dir=$(cd "${2:?--build-dir needs a folder}" && pwd); shift ;;
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    *) echo "package-python: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
  esac
  shift
done

"$root/scripts/setup.sh" --group package
if [[ -z $build_dir ]]; then
  "$root/scripts/build.sh" adaptdl_python
  build_dir=$root/build/release
else
  cmake --build "$build_dir" --target adaptdl_python
fi
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build_dir/CMakeCache.txt")
exec /usr/bin/python3 "$root/python/wheel/make_wheel.py" "$build_dir/python/adaptdl" "$version" "$output"
