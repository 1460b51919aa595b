"""Where nothing can be kept on the disk, compiled functions compute all the same."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from test_study_disk import SOURCE, in_namespace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux' mounts")

SOLVE = """
import numpy as np
from dcfw import sets
print(sets.Birkhoff(4).lmo(np.arange(16.0).reshape(4, 4) % 7).tolist())
"""


@pytest.fixture
def read_only(tmp_path):
    """A copy of the package and a home, and the shell's words that make both read-only."""
    shutil.copytree(
        Path(SOURCE) / "dcfw", tmp_path / "src" / "dcfw", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "home").mkdir()
    mounts = " && ".join(
        f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}"
        for folder in (tmp_path / "src", tmp_path / "home")
    )
    if subprocess.run(["unshare", "-rm", "bash", "-c", mounts], capture_output=True).returncode:
        pytest.skip("this system does not let us mount a folder read-only")
    home = str(tmp_path / "home")
    return mounts, {"PYTHONPATH": str(tmp_path / "src"), "HOME": home, "XDG_CACHE_HOME": f"{home}/cache"}


def test_compiled_functions_work_from_a_read_only_disk(read_only):
    mounts, environment = read_only
    done = in_namespace(f'{mounts} && {sys.executable} -c "$CODE"', CODE=SOLVE, **environment)
    assert done.returncode == 0, done.stderr
    usual = subprocess.run([sys.executable, "-c", SOLVE], capture_output=True, text=True, check=True)
    assert done.stdout == usual.stdout


def test_compiled_functions_work_where_their_cache_cannot_be_saved(tmp_path):
    # The folder can be made, and then there is no room for a file in it.
    (tmp_path / "disk").mkdir()
    mount = f"mount -t tmpfs -o size=4k tmpfs {tmp_path}/disk"
    if subprocess.run(["unshare", "-rm", "bash", "-c", mount], capture_output=True).returncode:
        pytest.skip("this system does not let us mount a small disk")
    done = in_namespace(
        f'{mount} && {sys.executable} -c "$CODE"', CODE=SOLVE, NUMBA_CACHE_DIR=str(tmp_path / "disk")
    )
    assert done.returncode == 0, done.stderr


def test_every_module_with_compiled_functions_is_watched_by_the_cache():
    from dcfw._compiling import MODULES, sources

    package = Path(SOURCE) / "dcfw"
    found = {
        str(file.relative_to(package).with_suffix(""))
        for file in package.rglob("*.py")
        if "_compiling import njit" in file.read_text(encoding="utf-8")
    }
    assert found | {"solvers/weights"} == set(MODULES)  # whose TIE is compiled into solvers/gram
    assert len(sources()) == len(MODULES)


def test_a_change_in_a_called_module_is_not_answered_from_the_cache(tmp_path):
    folder = tmp_path / "dcfw"
    shutil.copytree(Path(SOURCE) / "dcfw", folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "sets" / "lap.py").write_text(
        "from dcfw._compiling import njit\n@njit()\ndef f():\n    return 1\n"
    )
    (folder / "sets" / "auction.py").write_text(
        "from dcfw._compiling import njit\nfrom dcfw.sets.lap import f\n@njit()\ndef g():\n    return f()\n"
    )
    code = "import sys; sys.path.insert(0, sys.argv[1]); from dcfw.sets.auction import g; print(g(), end='')"

    def answer():
        command = [sys.executable, "-B", "-c", code, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert answer() + answer() == "11"
    lap = folder / "sets" / "lap.py"
    lap.write_text(lap.read_text().replace("return 1", "return 22"))
    assert answer() == "22"
