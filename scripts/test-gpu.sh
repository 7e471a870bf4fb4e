#!/usr/bin/env bash
# Runs what only a GPU can show: kernels, training of all examples, restarts and re-scaling in place, two and three ranks on
# one GPU, ranks that are killed or stand still, what the training library costs there, and how gradients travel.
#
#   scripts/test-gpu.sh [PART...]                        builds, and runs the parts (or all) on this machine's first GPU
#   scripts/test-gpu.sh --device cpu [PART...]           the same cases on the CPU, with the programs of build/release
#   scripts/test-gpu.sh --bundle FILE.tar.xz             builds, and packs all that a bare machine with a GPU needs
#   scripts/test-gpu.sh --torch 2.11.0 ...               against this version of LibTorch, not the newest
#
# That machine has Python, the torch wheel of the same version, a driver, and perhaps no network:
#
#   tar -xf FILE.tar.xz && adaptdl-gpu/test-gpu.sh PART...
#
# Parts, of eight minutes at most: kernels training restart ranks faults overhead exchange
#
# Building needs the CUDA toolkit (nvcc) and no GPU; LibTorch is that of the wheel, which is kept in build/cuda.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
say() { echo "test-gpu: $*"; }
fail() { echo "test-gpu: error: $*" >&2; exit 1; }

# What a bundle may measure: such machines take little.
max_bundle_mib=55

requirement=torch
device=cuda
bundle=
parts=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --bundle) bundle=${2:?--bundle needs a file}; shift ;;
    --torch) requirement=torch==${2:?--torch needs a version}; shift ;;
    --device) device=${2:?--device needs cpu or cuda}; shift ;;
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    -*) echo "test-gpu: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
    *) parts+=("$1") ;;
  esac
  shift
done
[[ $device == cpu || $device == cuda ]] || { echo "test-gpu: error: --device is cpu or cuda, not '$device'" >&2; exit 2; }

# Lets programs find the LibTorch of Python's torch package, which must be version $1, and NVIDIA's libraries beside it.
use_python_torch() {
  local wanted=$1 packages found folder
  packages=$(python3 -c 'import importlib.util as u, pathlib; s = u.find_spec("torch"); print(pathlib.Path(s.origin).parents[1] if s else "")')
  [[ -n $packages ]] || fail "Python has no torch; install torch==$wanted"
  found=$(sed -n "s/^__version__ = '\([^+']*\).*/\1/p" "$packages/torch/version.py")
  [[ $found == "$wanted" ]] || fail "Python's torch is $found, and the programs are built for $wanted; build a bundle with --torch $found"
  export LD_LIBRARY_PATH=$packages/torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  for folder in "$packages"/nvidia/*/lib; do
    [[ ! -d $folder ]] || LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$folder
  done
}

if [[ -f $here/torch-version ]]; then
  # In an unpacked bundle.
  use_python_torch "$(cat "$here/torch-version")"
  export LD_LIBRARY_PATH=$here/lib:$LD_LIBRARY_PATH
  exec python3 "$here/gpu_parts.py" --programs "$here" --device "$device" "${parts[@]}"
fi

root=$(cd "$here/.." && pwd)
cd "$root"
# shellcheck source=scripts/lib/torch-wheel.sh
source scripts/lib/torch-wheel.sh

tests=(device_test elastic_gradients_test elastic_step_test elastic_statistics_test elastic_device_training_test
  elastic_in_place_test)
benches=(overhead_bench exchange_bench)
examples=(adaptdl-mnist adaptdl-cifar adaptdl-ncf adaptdl-transformer)

if [[ $device == cpu ]]; then
  scripts/build.sh "${tests[@]}" "${benches[@]}" "${examples[@]}"
  exec python3 scripts/lib/gpu_parts.py --programs build/release --device cpu "${parts[@]}"
fi

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[[ -x $nvcc ]] || fail "there is no CUDA toolkit (nvcc)"
scripts/setup.sh --group build
torch=$root/build/cuda/$requirement
say "LibTorch is that of the wheel of $requirement"
get_torch_wheel "$requirement" "$torch" 3600 || fail "the Python registry does not give $requirement"
version=$(torch_wheel_version "$torch")
say "LibTorch $version, $("$nvcc" --version | grep release)"

build=$root/build/gpu
mkdir -p "$build"
# Lets ccache find what another build has compiled already.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
export CUDACXX=$nvcc
# The wheel leaves cuDNN and its like to wheels of their own; programs are linked without them, but do not start.
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$torch/torch" -DADAPTDL_CUDA=ON \
  -DADAPTDL_BUILD_TESTS=ON -DADAPTDL_BUILD_BENCH=ON -DCMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined \
  -DCMAKE_GTEST_DISCOVER_TESTS_DISCOVERY_MODE=PRE_TEST \
  >"$build/configure.log" 2>&1 || { tail -30 "$build/configure.log" >&2; exit 1; }
cmake --build "$build" --parallel "$(nproc)" --target adaptdl_cuda "${tests[@]}" "${benches[@]}" "${examples[@]}"

if [[ -z $bundle ]]; then
  use_python_torch "$version"
  exec python3 scripts/lib/gpu_parts.py --programs "$build" --device cuda "${parts[@]}"
fi

# Prints the libraries that program or library $1 itself is linked with, but those that every machine has that runs LibTorch:
# the C library's, NVIDIA's, and LibTorch's own.
libraries_of() {
  local name
  for name in $(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $name in
      libc.so*|libm.so*|libdl.so*|librt.so*|libpthread.so*|ld-linux*|libcu*|libnv*|libnccl*) continue ;;
    esac
    [[ -f $torch/torch/lib/$name ]] || ldconfig -p | awk -v name="$name" '$1 == name { print $NF; exit }'
  done
}

# Copies them to folder $2, and what they are linked with.
copy_libraries_of() {
  local library
  for library in $(libraries_of "$1"); do
    [[ ! -f $2/${library##*/} ]] || continue
    cp -L "$library" "$2/"
    copy_libraries_of "$library" "$2"
  done
}

staged=$(mktemp -d)
trap 'rm -rf "$staged"' EXIT
folder=$staged/adaptdl-gpu
mkdir -p "$folder/bin" "$folder/lib"
for name in "${tests[@]}" "${benches[@]}" "${examples[@]}"; do
  for place in tests bench bin; do
    [[ ! -f $build/$place/$name ]] || strip -o "$folder/bin/$name" "$build/$place/$name"
  done
done
find "$build" -name libadaptdl_cuda.so -exec strip --strip-unneeded -o "$folder/lib/libadaptdl_cuda.so" {} \;
for program in "$folder"/bin/* "$folder/lib/libadaptdl_cuda.so"; do copy_libraries_of "$program" "$folder/lib"; done
cp scripts/test-gpu.sh scripts/lib/gpu_parts.py "$folder/"
echo "$version" >"$folder/torch-version"
tar -C "$staged" -cJf "$bundle" adaptdl-gpu
size=$(stat -c %s "$bundle")
say "$bundle has $((size / 1048576)) MiB, for torch $version"
((size <= max_bundle_mib * 1048576)) || fail "that is more than $max_bundle_mib MiB"
