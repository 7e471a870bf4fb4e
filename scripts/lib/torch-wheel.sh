#!/usr/bin/env bash
# To be sourced: PyTorch out of the "torch" wheel of the Python registry, for those who compile against its LibTorch, and
# those who import it.

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

# What the wheel in folder $1 requires, one a line: the wheels of NVIDIA ("companions") if $2 is "nvidia", the others otherwise.
torch_wheel_requirements() {
  sed -n '/; extra ==/d; s/^Requires-Dist: //p' "$1"/torch-*.dist-info/METADATA |
    if [[ $2 == nvidia ]]; then sed -n 's/^\(nvidia-[^;]*\).*/\1/p'; else sed '/platform_system == "Linux"/d'; fi
}

# What the PyTorch in folder $1 is linked with and does not find, or finds too old: names of companions, and otherwise of
# libraries and functions. What a CUDA toolkit has counts if it is in $LD_LIBRARY_PATH.
torch_wheel_lacks() {
  ldd -r "$1/torch/lib/libtorch_cuda.so" 2>&1 |
    sed -n -e 's/^\s*\(\S*\) => not found$/\1/p' -e 's/^undefined symbol: \([^,[:space:]]*\).*/\1/p' |
    sed -E 's/^(lib)?(cudnn|cufile|cusparselt|nccl|nvshmem).*/nvidia-\L\2/I' | sort -u
}

# Puts those companions into folder $1, beside PyTorch, that it lacks; the download may take $2 seconds. False: the registry
# does not give them, or they are not enough.
get_torch_companions() {
  local folder=$1 seconds=$2 name download wanted=()
  for name in $(torch_wheel_lacks "$folder"); do
    [[ $name == nvidia-* ]] || continue  # of a library that is not there at all: looked for again below
    # In the version that PyTorch names, if it names one.
    wanted+=("$(torch_wheel_requirements "$folder" nvidia | grep "^$name\b" || echo "$name")")
  done
  if [[ ${#wanted[@]} -gt 0 ]]; then put_torch_companions "$folder" "$seconds" "${wanted[@]}" || return 1; fi
  name=$(torch_wheel_lacks "$folder")
  [[ -z $name ]] || { echo "PyTorch needs ${name//$'\n'/, }, which the CUDA toolkit here does not have" >&2; return 1; }
}

# The download of get_torch_companions.
put_torch_companions() {
  local folder=$1 seconds=$2 download
  # By way of another folder: pip replaces the folder "nvidia", which all of them are in.
  download=$(mktemp -d)
  timeout "$seconds" python3 -m pip install --quiet --no-deps --root-user-action ignore --target "$download" "${@:3}" ||
    { rm -rf "$download"; return 1; }
  cp -a "$download/." "$folder"
  rm -rf "$download"
}
