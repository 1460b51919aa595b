#!/usr/bin/env bash
# Build the kernels with AddressSanitizer and UndefinedBehaviorSanitizer and run their tests (GCC or Clang on Linux).
# Needs cmake, ninja, nanobind and the test requirements in the environment of $PYTHON.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$(command -v "${PYTHON:-python3}")") # an absolute path, because CMake runs it in another folder
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

flags="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1 -O1"
cmake -S . -B "$folder/build" -G Ninja -DPython_EXECUTABLE="$python" -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_SHARED_LINKER_FLAGS="$flags" > /dev/null
cmake --build "$folder/build"
cp -r src "$folder/src"
rm -f "$folder"/src/dcfw/_kernels*.so
cp "$folder"/build/_kernels*.so "$folder/src/dcfw/"

# Python itself is not instrumented: preload the libraries, and do not report Python's own leaks.
export LD_PRELOAD="$(${CXX:-c++} -print-file-name=libasan.so) $(${CXX:-c++} -print-file-name=libubsan.so)"
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc
export PYTHONPATH="$folder/src"
# An editable install would be found before PYTHONPATH, with its own extension: disable its import hook.
echo 'import sys; sys.meta_path[:] = [f for f in sys.meta_path if "ScikitBuild" not in type(f).__name__]' > "$folder/src/sitecustomize.py"
"$python" -c "from dcfw import _kernels; print('under test:', _kernels.__file__); assert _kernels.__file__.startswith('$folder')"
"$python" -m pytest -q -x -p no:cacheprovider tests/kernels tests/sets/test_lap.py tests/solvers/test_weights.py "$@"
