#!/usr/bin/env bash
# Compiles the training library and its CUDA plugin against a CUDA LibTorch 2.x, and links programs with them. No GPU is
# needed.
#
#   scripts/test-cuda-build.sh                  all of the library, its tests, and a program
#   scripts/test-cuda-build.sh --quick          the plugin for one architecture, and an example: eight minutes
#   scripts/test-cuda-build.sh --torch VERSION  another version than the newest of the Python registry
#
# LibTorch is that of the "torch" wheel (0.5 to 1 GB), which is kept in build/cuda. Exits with 77 (skipped) where the
# CUDA toolkit or the registry is missing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# shellcheck source=scripts/lib/torch-wheel.sh
source scripts/lib/torch-wheel.sh
say() { echo "cuda-build: $*"; }
skip() { echo "cuda-build: SKIPPED, nothing was checked: $*" >&2; exit 77; }

requirement=torch
quick=
while [[ $# -gt 0 ]]; do
  case $1 in
    --quick) quick=1 ;;
    --torch) requirement=torch==${2:?--torch needs a version}; shift ;;
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    *) echo "cuda-build: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
  esac
  shift
done

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[[ -x $nvcc ]] || skip "there is no CUDA toolkit (nvcc)"
python3 -m pip --version >/dev/null 2>&1 || skip "there is no pip"

build=$root/build/cuda
mkdir -p "$build"
torch=$build/$requirement
say "LibTorch is that of the wheel of $requirement"
get_torch_wheel "$requirement" "$torch" "$((${#quick} > 0 ? 300 : 3600))" ||
  skip "the Python registry does not give $requirement, or not in time"
say "LibTorch $(torch_wheel_version "$torch"), $("$nvcc" --version | grep release)"

tests=ON
[[ -z $quick ]] || tests=OFF

# Lets ccache find what another build has compiled already.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
export CUDACXX=$nvcc
cmake -S . -B "$build/tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$torch/torch" \
  -DADAPTDL_CUDA=ON ${quick:+-DADAPTDL_CUDA_ARCHITECTURES=90-real} -DADAPTDL_BUILD_TESTS=$tests \
  -DADAPTDL_BUILD_BENCH=OFF ${quick:+-DADAPTDL_UNITY=ON -DCMAKE_CXX_FLAGS_RELEASE=-O0} -DCMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined \
  -DCMAKE_GTEST_DISCOVER_TESTS_DISCOVERY_MODE=PRE_TEST >"$build/configure.log" 2>&1 ||
  { tail -30 "$build/configure.log" >&2; exit 1; }

is_linked_with_cuda() {
  readelf -d "$1" | grep -q "libtorch_cuda" || { say "error: $1 is not linked with CUDA" >&2; exit 1; }
}

if [[ -n $quick ]]; then
  cmake --build "$build/tree" --parallel "$(nproc)" --target adaptdl_cuda adaptdl-mnist
  is_linked_with_cuda "$build/tree/bin/adaptdl-mnist"
  say "the plugin links, and an example with all of the training library"
  exit 0
fi

cmake --build "$build/tree" --parallel "$(nproc)" --target adaptdl_elastic adaptdl_control adaptdl_cuda \
  device_test elastic_data_parallel_test elastic_in_place_test
rm -rf "$build/installed"
cmake --install "$build/tree" --prefix "$build/installed" --component training >"$build/install.log"
# The wheel leaves cuDNN and its like to wheels of their own; a program is linked without them, but does not start.
cmake -S tests/package -B "$build/program" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$build/installed;$torch/torch" -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)" \
  -DCMAKE_EXE_LINKER_FLAGS="-Wl,--allow-shlib-undefined" >"$build/configure-program.log" 2>&1 ||
  { tail -30 "$build/configure-program.log" >&2; exit 1; }
cmake --build "$build/program"
is_linked_with_cuda "$build/program/train"
say "the training library compiles, and a program links with it"
