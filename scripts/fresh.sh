# For scripts that install packages: a temporary folder, and an environment without our settings.
# Sourced by wheel.sh, fallback.sh and audit.sh; sets python, root and folder.
python=${PYTHON:-python3}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset PYTHONPATH VIRTUAL_ENV
export PIP_DISABLE_PIP_VERSION_CHECK=1

# Run a command, and show its output only if it fails.
quietly() {
    "$@" > "$folder/log" 2>&1 || { cat "$folder/log" >&2; return 1; }
}
