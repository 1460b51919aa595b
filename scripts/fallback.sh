#!/usr/bin/env bash
# Check the package without a compiler: it installs, warns about the missing kernels, and its tests pass.
#
#   scripts/fallback.sh
#
# Runs the tests of the kernels' interface and of the code built on it: 20 s of CPU time.
# PYTHON names the interpreter (python3).  Exit code: 0 on success.
set -euo pipefail

# shellcheck source=scripts/fresh.sh
source "$(dirname "$0")/fresh.sh"

echo "== install"
"$python" -m venv "$folder/venv"
CC=/bin/false CXX=/bin/false quietly "$folder/venv/bin/pip" install "$root[cli]" pytest hypothesis
mkdir "$folder/user"
cp -r "$root/tests" "$root/conftest.py" "$root/pyproject.toml" "$folder/user"
cd "$folder/user"
"$folder/venv/bin/python" -c "from dcfw import kernels; assert kernels.native is None" 2> "$folder/log"
grep "compiled kernels are missing" "$folder/log"

echo "== tests"
"$folder/venv/bin/python" -m pytest -q -p no:cacheprovider tests/kernels tests/sets/test_lap.py \
    tests/solvers/test_weights.py tests/qap/test_qap_objective.py
echo "fallback: passed"
