#!/usr/bin/env bash
# To be sourced: LibTorch out of the "torch" wheel of the Python registry, for those who compile against it.

# Unpacks the wheel of requirement $1 (such as torch==2.11.0) into folder $2, unless it is there; the download may take $3
# seconds. False: the registry does not give it, or not in time.
get_torch_wheel() {
  local requirement=$1 folder=$2 seconds=$3 download
  [[ ! -f $folder/torch/share/cmake/Torch/TorchConfig.cmake ]] || return 0
  download=$(mktemp -d)
  timeout "$seconds" python3 -m pip download --quiet --no-deps --dest "$download" "$requirement" ||
    { rm -rf "$download"; return 1; }
  rm -rf "$folder"
  python3 -m zipfile -e "$download"/torch-*.whl "$folder"
  rm -r "$download"
}

# The version of the LibTorch in folder $1.
torch_wheel_version() { sed -n "s/^__version__ = '\([^+']*\).*/\1/p" "$1/torch/version.py"; }
