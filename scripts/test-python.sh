#!/usr/bin/env bash
# Tests the Python package beyond what ctest does with Debian's PyTorch: AdaptDL's own unit tests, as they lie in its wheel, with
# Debian's; and with a PyTorch of the Python registry, installed from the wheel, the package's own tests, torch.compile, the
# example, and a job on a cluster whose replicas change in place.
#
#   scripts/test-python.sh                    all of it, with the registry's newest PyTorch
#   scripts/test-python.sh --quick            what is run every day, with the newest PyTorch alone: a minute and a half
#   scripts/test-python.sh --torch VERSION    another version than the newest
#   scripts/test-python.sh --build-dir DIR    takes the engine and the cluster from there, and does not build them
#
# PyTorch's wheel (0.5 to 1 GB) is a build for CUDA: it is kept in build/cuda, as scripts/test-cuda-build.sh has it, with those of
# its companions that a CUDA toolkit does not have; the rest of what it gets in build/python. Nothing here needs a GPU. Exits
# with 77 (skipped) where the toolkit or the registry is missing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# shellcheck source=scripts/lib/torch-wheel.sh
source scripts/lib/torch-wheel.sh
say() { echo "test-python: $*"; }
skip() { echo "test-python: SKIPPED, nothing was checked: $*" >&2; exit 77; }

requirement=torch
quick=
build_dir=
while [[ $# -gt 0 ]]; do
  case $1 in
    --quick) quick=1 ;;
    --torch) requirement=torch==${2:?--torch needs a version}; shift ;;
    --build-dir) build_dir=$(cd "${2:?--build-dir needs a folder}" && pwd); shift ;;
    -h|--help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit 0 ;;
    *) echo "test-python: error: unknown argument '$1'; see $0 --help" >&2; exit 2 ;;
  esac
  shift
done
[[ $requirement != torch==newest ]] || requirement=torch

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[[ -x $nvcc ]] || skip "there is no CUDA toolkit, which has libraries that PyTorch's wheel is linked with"
python3 -m pip --version >/dev/null 2>&1 || skip "there is no pip"
libraries=$(cd "$(dirname "$(readlink -f "$nvcc")")/.." && pwd)/lib64
if [[ -z $build_dir ]]; then
  scripts/build.sh adaptdl_python adaptdl integration_python_rescale_test
  build_dir=$root/build/release
fi

if [[ -z $quick ]]; then
  say "AdaptDL's own unit tests, with Debian's PyTorch"
  scripts/test-adaptdl-compat.sh "$build_dir"
fi

export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
torch=$root/build/cuda/$requirement
venv=$root/build/python/$requirement
seconds=$((${#quick} > 0 ? 300 : 3600))
mkdir -p "$root/build/cuda" "$root/build/python"
exec 8>"$root/build/cuda/lock"
flock 8  # tests may run at the same time
get_torch_wheel "$requirement" "$torch" "$seconds" || skip "the Python registry does not give $requirement, or not in time"
get_torch_companions "$torch" "$seconds" || skip "not all that PyTorch's wheel is linked with can be had"
if [[ ! -f $venv/made ]]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  torch_wheel_requirements "$torch" others >"$venv/requirements.txt"
  timeout "$seconds" "$venv/bin/python" -m pip install --quiet numpy -r "$venv/requirements.txt" ||
    skip "the Python registry does not give what PyTorch needs, or not in time"
  echo "$torch" >"$(echo "$venv"/lib/python3*/site-packages)/torch.pth"
  touch "$venv/made"
fi
flock -u 8

output=$venv/wheel
rm -rf "$output"
scripts/package-python.sh --build-dir "$build_dir" --output "$output"
"$venv/bin/python" -m pip install --quiet --no-index --no-deps --force-reinstall "$output"/*.whl
# The rest runs what is installed there.
unset PYTHONPATH
export ADAPTDL_TEST_PROGRAMS=$build_dir/bin ADAPTDL_TEST_PYTHON=$venv/bin/python OMP_NUM_THREADS=1
cd "$build_dir"
"$venv/bin/python" -m adaptdl
package=$(echo "$venv"/lib/python3*/site-packages)

say "the package's own tests"
modules=()
for file in "$root"/python/tests/test_*.py; do
  module=$(basename "$file" .py)
  [[ $module == test_compile ]] || modules+=("$module")
done
[[ -z $quick ]] || modules=(test_steps test_loader test_jobs test_streams test_scaler test_replicas.ReplicasTest.test_with_micro_batches_and_processes_that_read)
"$venv/bin/python" "$root/python/tests/run.py" "$package" "${modules[@]}"

say "the example, alone and with two replicas"
example=("$venv/bin/python" "$root/examples/python-mnist/mnist.py" --samples 1500 --epochs 2 --max-batch-size 0 --batch-size 16)
"${example[@]}"
"$build_dir/bin/adaptdl" run -n 2 -- "${example[@]}"

say "a job on a cluster, whose replicas change in place, and lose one"
cases="*GrowsShrinksAndLosesAReplicaInPlace/*"
[[ -z $quick ]] || cases="*GrowsShrinksAndLosesAReplicaInPlace/Indices"
"$build_dir/tests/integration_python_rescale_test" --gtest_filter="$cases"

if [[ -z $quick ]]; then
  say "torch.compile"
  "$venv/bin/python" "$root/python/tests/run.py" "$package" test_compile
fi
say "passed with PyTorch $(torch_wheel_version "$torch")"
