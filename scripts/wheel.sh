#!/usr/bin/env bash
# Build, inspect, install, use and test the package as users get it.
#
#   scripts/wheel.sh          a quick selection of the tests against the installed wheel
#   scripts/wheel.sh --all    all tests except the slow ones
#
# 1. builds the source archive and, from it, the wheel
# 2. checks the contents of the wheel: every module and resource of src/dcfw that is not ignored by git, py.typed,
#    and nothing else (no tests, data or caches)
# 3. installs the wheel with the versions of constraints.txt in a new virtual environment outside the tree
# 4. runs a few lines of code and the tests, copied to a temporary folder, against it
# 5. checks the types of a user's script with mypy --strict: a correct one passes, a wrong one fails
#
# PYTHON names the interpreter (python3).  Exit code: 0 on success.
set -euo pipefail

all=no
for argument in "$@"; do
    case $argument in
        --all) all=yes ;;
        -h | --help) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) echo "wheel: unknown option $argument (see --help)" >&2; exit 2 ;;
    esac
done

# shellcheck source=scripts/fresh.sh
source "$(dirname "$0")/fresh.sh"

echo "== build"
"$python" -m venv "$folder/build"
quietly "$folder/build/bin/pip" install build
quietly "$folder/build/bin/python" -m build --outdir "$folder/dist" "$root"
ls "$folder/dist"

echo "== contents"
(cd "$root" && git ls-files --cached --others --exclude-standard) > "$folder/known"
"$python" - "$folder" "$root" << 'PYTHON'
import re, sys, tarfile, zipfile
from pathlib import Path

folder, root = map(Path, sys.argv[1:])
(wheel,) = (folder / "dist").glob("*.whl")
(sdist,) = (folder / "dist").glob("*.tar.gz")
names = zipfile.ZipFile(wheel).namelist()
package = {name for name in names if not re.match(r"dcfw-[^/]*\.dist-info/", name)}
known = {name for name in (folder / "known").read_text().split("\n") if name and (root / name).is_file()}
native = "src/dcfw/kernels/native/"  # in the source archive only: the wheel has the compiled extension
expected = {name.removeprefix("src/") for name in known if name.startswith("src/dcfw/") and native not in name}
compiled = {name for name in package if re.fullmatch(r"dcfw/_kernels\.[^/]*\.(so|pyd)", name)}
package -= compiled
problems = [] if len(compiled) == 1 else ["the wheel lacks the compiled kernels"]
problems += [f"the wheel lacks {name}" for name in sorted(expected - package)]
problems += [f"the wheel holds {name}" for name in sorted(package - expected)]
if "dcfw/py.typed" not in package:
    problems.append("the wheel lacks py.typed")
if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
    problems.append("the wheel lacks the licence")
odd = re.compile(r"(^|/)(tests?|data|results|__pycache__|\.[^/]*cache)(/|$)|\.(nbi|nbc|pyc|db|npy|npz|dat|sln|vec)$")
problems += [f"the wheel holds {name}" for name in names if odd.search(name)]
members = {m.name.split("/", 1)[1] for m in tarfile.open(sdist).getmembers() if m.isfile()} - {"PKG-INFO"}
problems += [f"the source archive holds {name}" for name in sorted(members - known)]
problems += [f"the source archive holds {name}" for name in sorted(members) if name.startswith("results/")]
wanted = {name for name in known if name.startswith(("src/", "tests/")) or name in ("LICENSE", "README.md", "CMakeLists.txt")}
problems += [f"the source archive lacks {name}" for name in sorted(wanted - members)]
resources = sorted(name for name in package if not name.endswith(".py"))
sizes = (f"{len(part)} files, {file.stat().st_size / 1024:.0f} kB" for part, file in ((package, wheel), (members, sdist)))
print("wheel: {}; source archive: {}".format(*sizes))
print("resources:", " ".join(resources))
sys.exit("\n".join(problems[:20]) or 0)
PYTHON

echo "== install"
"$python" -m venv "$folder/venv"
wheel=$(echo "$folder"/dist/*.whl)
quietly "$folder/venv/bin/pip" install -c "$root/constraints.txt" "$wheel[cli,plots,graphs,sklearn,test]" "$root/studies[test]" mypy
mkdir "$folder/user"
cd "$folder/user"

echo "== use"
"$folder/venv/bin/python" - "$folder/venv" << 'PYTHON'
import sys

import numpy as np

import dcfw
from dcfw import functions, sets
from dcfw.qap.checksums import checksums

assert dcfw.__file__.startswith(sys.argv[1]), dcfw.__file__
res = dcfw.minimize(functions.SquaredNorm(1.0) - functions.Quadratic(np.diag([2.0, 3.0, 1.0])), sets.Simplex(3))
assert res.success and res.x.tolist() == [0.0, 1.0, 0.0], res
assert dcfw.qap.solve([[0, 3], [1, 0]], [[0, 5], [2, 0]], rng=0).fun == 11
assert len(checksums()) == 136
print("dcfw", dcfw.__version__, "with numpy", np.__version__)
PYTHON
quietly "$folder/venv/bin/dcfw" demo
[ -s dcfw-demo.html ] || { echo "wheel: the demo wrote no page" >&2; exit 1; }

echo "== types"
cat > right.py << 'PYTHON'
import numpy as np

import dcfw
from dcfw import functions, sets


def best(n: int) -> tuple[float, bool]:
    f = functions.SquaredNorm(1.0)
    g = functions.Quadratic(np.eye(n), convex=True)
    result: dcfw.Result = dcfw.minimize(f - g, sets.Simplex(n), maxiter=10, tol=1e-4)
    return float(result.fun), bool(result.success)


low, high = dcfw.gaps.dc_gap(functions.SquaredNorm(), sets.Simplex(2), np.array([0.5, 0.5]))
print(best(3), high - low)
PYTHON
cat > wrong.py << 'PYTHON'
import dcfw
from dcfw import functions, sets

dcfw.minimize(functions.SquaredNorm("two"), sets.Simplex(3))
dcfw.minimize(functions.SquaredNorm(), sets.Simplex(3), maxiter="many")
dcfw.minimize(functions.SquaredNorm(), sets.Simplex(3), max_iterations=5)
sets.KSparse(3)
PYTHON
"$folder/venv/bin/mypy" --strict right.py
if "$folder/venv/bin/mypy" --strict wrong.py > "$folder/types" 2>&1; then
    echo "wheel: mypy found no error in a wrong script" >&2
    exit 1
fi
found=$(grep -c '^wrong.py:.* error:' "$folder/types")
[ "$found" = 4 ] || { cat "$folder/types" >&2; echo "wheel: mypy found $found of 4 mistakes" >&2; exit 1; }
echo "4 of 4 mistakes found"

echo "== tests"
mkdir "$folder/user/studies"
cp -r "$root/tests" "$root/bench" "$root/examples" "$root/conftest.py" "$root/pyproject.toml" "$folder/user"
cp -r "$root/studies/tests" "$folder/user/studies"
find "$folder/user" -name __pycache__ -prune -exec rm -rf {} +
quick="test_imports.py test_minimize.py test_functions.py test_splits.py test_sets_membership.py test_qap_objective.py \
    test_qap_instances.py test_align_vectors.py test_fetch.py test_cli.py test_page_render.py test_bad_input.py"
[ $all = yes ] && selection="tests studies/tests" || selection=$(printf '*/*/%s ' $quick)
# shellcheck disable=SC2086
"$folder/venv/bin/python" -m pytest -q -p no:cacheprovider $selection
"$folder/venv/bin/python" -c "import dcfw; assert dcfw.__file__.startswith('$folder/venv')"
echo "wheel: passed"
