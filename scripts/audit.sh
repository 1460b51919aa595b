#!/usr/bin/env bash
# Known vulnerabilities of the versions in constraints.txt, from PyPI's advisories (pip-audit).
#
#   scripts/audit.sh
#
# Exit code: 0 if there are none, or (with a message) if pip-audit or the advisories are unavailable; 1 otherwise.
set -euo pipefail

case ${1:-} in
    "") ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "audit: unknown option $1 (see --help)" >&2; exit 2 ;;
esac

# shellcheck source=scripts/fresh.sh
source "$(dirname "$0")/fresh.sh"

reachable() {
    "$python" - << 'PYTHON'
import json, sys, urllib.request

try:
    with urllib.request.urlopen("https://pypi.org/pypi/numpy/1.26.0/json", timeout=20) as answer:
        sys.exit(0 if "vulnerabilities" in json.load(answer) else "the answer of pypi.org has no advisories")
except (OSError, ValueError) as error:
    sys.exit(f"pypi.org: {error}")
PYTHON
}

if ! why=$(reachable 2>&1); then
    echo "audit: skipped, because the advisories cannot be reached ($why)"
    exit 0
fi
"$python" -m venv "$folder/venv"
quietly "$folder/venv/bin/pip" install -q pip-audit ||
    { echo "audit: skipped, because pip-audit cannot be installed"; exit 0; }
grep -v '^#' "$root/constraints.txt" > "$folder/requirements.txt"
"$folder/venv/bin/pip-audit" -r "$folder/requirements.txt" --no-deps --disable-pip --progress-spinner off
