#!/usr/bin/env bash
# Build and check the documentation site: run the examples on its pages, build it with Sphinx (including the
# gallery) with warnings as errors, and check its links.  Needs pip install ".[docs]"; no network.
#
#     scripts/docs.sh            the site is then in docs/_build/html; PYTHON names the interpreter
#     scripts/docs.sh --clean    runs every example of the gallery again
set -euo pipefail
cd "$(dirname "$0")/.."
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" MPLBACKEND=Agg
python="${PYTHON:-python}"
export PYTHONPATH="src:studies${PYTHONPATH:+:$PYTHONPATH}"

if [ "${1:-}" = "--clean" ]; then
    rm -rf docs/gallery
fi
# Remove pages of removed names; examples of the gallery run again only when they change.
rm -rf docs/_build docs/api/generated/*.rst

echo "== the examples on the pages"
"$python" docs/pages.py
echo "== sphinx-build"
"$python" -m sphinx -j 2 -b html -q -n -W --keep-going docs docs/_build/html
echo "== links"
"$python" docs/links.py docs/_build/html
echo "docs/_build/html/index.html"
