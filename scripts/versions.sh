#!/usr/bin/env bash
# Test the oldest versions that pyproject.toml allows, the newest ones, and free-threaded Python.
#
#   scripts/versions.sh                   the oldest ones in a new virtual environment: a selection of the tests
#   scripts/versions.sh --newest          the same with the newest
#   scripts/versions.sh --free-threaded   the newest in Python 3.14t, with the thread tests
#   scripts/versions.sh --list            print the oldest ones
#
# The dependencies and those of the extras cli, parallel, plots, graphs, transport and sklearn are installed at
# their lower bounds; indirect dependencies (click, pyparsing, ...) are the newest that pip finds, so deprecation
# warnings between the two are not errors here.  The selection omits tests of other extras, and those that need
# a newer SciPy or click; the commands are run as well.  PYTHON names the interpreter (python3, of the oldest
# version allowed; python3.14t, which scripts/free_threaded_python.sh builds if there is none).
# Exit code: 0 if the tests pass.
set -euo pipefail

python=${PYTHON:-python3}
threads=""
root=$(cd "$(dirname "$0")/.." && pwd)
lower_bounds() {
    "$python" - "$root/pyproject.toml" << 'PYTHON'
import re, sys, tomllib

project = tomllib.load(open(sys.argv[1], "rb"))["project"]
extras = project["optional-dependencies"]
for requirement in dict.fromkeys([*project["dependencies"], *(r for extra in ("cli", "parallel", "plots", "graphs", "transport", "sklearn") for r in extras[extra])]):
    name, version = re.fullmatch(r"([\w.-]+)>=([\d.]+)", requirement).groups()
    print(f"{name}=={version}" + (".0" if "." not in version else ""))
PYTHON
}
names() { lower_bounds | sed 's/==.*//'; }

wanted=lower_bounds
case ${1:-} in
    "") ;;
    --newest) wanted=names ;;
    --free-threaded) wanted=names python=${PYTHON:-python3.14t} threads="tests/core/test_threads.py tests/kernels" ;;
    --list) lower_bounds; exit 0 ;;
    -h | --help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "versions: unknown option $1 (see --help)" >&2; exit 2 ;;
esac

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset PYTHONPATH VIRTUAL_ENV
export PIP_DISABLE_PIP_VERSION_CHECK=1

echo "== install"
if [ -n "$threads" ] && ! command -v "$python" > /dev/null; then
    python=$("$root/scripts/free_threaded_python.sh" "$folder/python")
fi
$wanted > "$folder/bounds"
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q -r "$folder/bounds" pytest pytest-xdist hypothesis > "$folder/log" 2>&1 ||
    { cat "$folder/log" >&2; echo "versions: these versions cannot be installed together" >&2; exit 1; }
"$folder/venv/bin/pip" list --format=freeze | grep -i -E "^($(names | paste -sd '|'))=="

"$folder/venv/bin/pip" install -q --no-deps "$root" > "$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
mkdir "$folder/user"
cp -r "$root/tests" "$root/bench" "$root/examples" "$root/conftest.py" "$root/pyproject.toml" "$folder/user"
cd "$folder/user"
"$folder/venv/bin/python" -c "from dcfw import _kernels" # the fallback would hide a compiler error

echo "== tests"
quick="test_imports.py test_bad_input.py test_bad_input_table.py test_steps.py test_splits.py test_gaps_api.py \
    test_lap.py test_qap_objective.py test_qap_instances.py test_align_vectors.py test_align_solver.py \
    test_align_estimator.py test_plots.py test_checkpoint_files.py test_hostile_files.py test_minimize.py test_fuzz.py"
# POT does not declare support for free-threaded Python; keep it from re-enabling the GIL.
# shellcheck disable=SC2046,SC2086
env ${threads:+PYTHON_GIL=0} "$folder/venv/bin/python" -m pytest -q -n 2 -p no:cacheprovider \
    -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning $threads $(printf 'tests/*/%s ' $quick)
echo "== commands"
for command in --help info "qap --help"; do
    # shellcheck disable=SC2086
    "$folder/venv/bin/python" -W ignore -m dcfw $command > "$folder/log" 2>&1 ||
        { cat "$folder/log" >&2; echo "versions: dcfw $command failed" >&2; exit 1; }
done
echo "versions: passed"
