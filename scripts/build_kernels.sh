#!/usr/bin/env bash
# Build the extension in place (src/dcfw/_kernels*.so), to work on the kernels without reinstalling.
# Needs cmake, ninja and nanobind in the environment of $PYTHON (pip install cmake ninja nanobind).
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$(command -v "${PYTHON:-python3}")") # an absolute path, because CMake runs it in another folder
cmake -S . -B build -G Ninja -DPython_EXECUTABLE="$python" -DCMAKE_BUILD_TYPE=Release "$@" > /dev/null
cmake --build build
cp --remove-destination build/_kernels*.so src/dcfw/
