#!/usr/bin/env bash
# Run the two command lines of the README in a fresh clone with nothing installed.
#
#   scripts/first_steps.sh               the demo, then the tests
#   scripts/first_steps.sh --demo-only   the demo
#
# The lines are read from README.md.  The clone has the last commit
# of this repository and is in a temporary folder, away from any data beside the repository.
# Exit code: 0 if the demo printed its table and wrote dcfw-demo.html, and the tests passed.
set -euo pipefail

tests=yes
for argument in "$@"; do
    case $argument in
        --demo-only) tests=no ;;
        -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "first_steps: unknown option $argument (see --help)" >&2; exit 2 ;;
    esac
done

fail() {
    echo "first_steps: $1" >&2
    exit 1
}

# Run the line of the README that matches a pattern; show its output and save it.
run_line() {
    local line
    line=$(grep -m 1 -e "$1" README.md) || fail "README.md has no line like $1"
    echo "== $line"
    bash -c "set -euo pipefail; $line" 2>&1 | tee "$2" || fail "this line of the README failed: $line"
}

root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ -n "$(git -C "$root" status --porcelain)" ]; then
    echo "first_steps: uncommitted changes are not in the clone" >&2
fi
git clone --quiet "$root" "$folder/dcfw"

# Use none of our settings, data and caches, except pip's cache of packages.
PIP_CACHE_DIR=${PIP_CACHE_DIR:-$(python3 -m pip cache dir)}
export PIP_CACHE_DIR PIP_DISABLE_PIP_VERSION_CHECK=1 XDG_CACHE_HOME="$folder/cache"
unset PYTHONPATH VIRTUAL_ENV DCFW_DATA
cd "$folder/dcfw"

run_line '^python3 -m venv .*dcfw demo' "$folder/demo.log"
grep -q 'certified gap' "$folder/demo.log" || fail "the demo printed no table"
[ -s dcfw-demo.html ] || fail "the demo wrote no dcfw-demo.html"
grep -qi '<!doctype html>' dcfw-demo.html || fail "dcfw-demo.html is not an HTML page"

if [ $tests = yes ]; then
    run_line '^python3 -m venv .*pytest' "$folder/tests.log"
    echo "== $(tail -n 1 "$folder/tests.log")"
fi
echo "first_steps: passed"
