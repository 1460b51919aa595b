"""Where nothing can be kept on the disk, compiled functions compute all the same."""

import shutil
import subprocess
import sys

import numba
import pytest

from dcfw._compiling import njit
from places import PACKAGE, in_namespace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux' mounts")

SOLVE = """
import numpy as np
from dcfw import sets
print(sets.Birkhoff(4).lmo(np.arange(16.0).reshape(4, 4) % 7).tolist())
"""


@pytest.fixture
def read_only(tmp_path):
    """A copy of the package and a home, and the shell's words that make both read-only."""
    shutil.copytree(PACKAGE, tmp_path / "src" / "dcfw", ignore=shutil.ignore_patterns("__pycache__"))
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

    package = PACKAGE
    found = {
        str(file.relative_to(package).with_suffix(""))
        for file in package.rglob("*.py")
        if "_compiling import njit" in file.read_text(encoding="utf-8")
    }
    assert found == set(MODULES)
    assert len(sources()) == len(MODULES)


def test_a_change_in_a_called_module_is_not_answered_from_the_cache(tmp_path):
    folder = tmp_path / "dcfw"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "qap" / "kicks.py").write_text(
        "from dcfw._compiling import njit\n@njit()\ndef f():\n    return 1\n"
    )
    (folder / "sets" / "other.py").write_text(
        "from dcfw._compiling import njit\nfrom dcfw.qap.kicks import f\n@njit()\ndef g():\n    return f()\n"
    )
    code = "import sys; sys.path.insert(0, sys.argv[1]); from dcfw.sets.other import g; print(g(), end='')"

    def answer():
        command = [sys.executable, "-B", "-c", code, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert answer() + answer() == "11"
    kicks = folder / "qap" / "kicks.py"
    kicks.write_text(kicks.read_text().replace("return 1", "return 22"))
    assert answer() == "22"


def weigh(x):
    return 2.5 * x + 1.0


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Compile ``weigh`` with a cache of our own; return its value and whether the cache had it."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def call(x=2.0):
        function = njit()(weigh)
        return function(x), sum(function.stats.cache_hits.values())

    return call


def garbled(content):
    """Other bytes in the middle, where the machine code is."""
    middle = len(content) // 2
    return (
        content[:middle] + bytes(byte ^ 0x55 for byte in content[middle : middle + 8]) + content[middle + 8 :]
    )


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: b"\x80\x05\xff" + content[3:],
        lambda content: b"no pickle at all" * 50,
        garbled,
    ],
    ids=["empty", "half", "short by a byte", "another opcode", "text", "garbled"],
)
def test_a_damaged_file_of_the_cache_counts_as_none_and_is_replaced(call, tmp_path, suffix, damage):
    assert [call(), call()] == [(6.0, 0), (6.0, 1)]
    (file,) = tmp_path.rglob(f"*.{suffix}")
    file.write_bytes(damage(file.read_bytes()))
    assert [call(), call()] == [(6.0, 0), (6.0, 1)]


def test_a_damaged_index_does_not_keep_another_signature_from_the_cache(call, tmp_path):
    assert [call(), call(2)] == [(6.0, 0), (6.0, 0)]
    assert [call(), call(2)] == [(6.0, 1), (6.0, 1)]
    (file,) = tmp_path.rglob("*.nbi")
    file.write_bytes(b"")
    assert [call(), call(2)] == [(6.0, 0), (6.0, 0)]
    assert [call(), call(2)] == [(6.0, 1), (6.0, 1)]


def test_a_cache_as_numba_writes_it_is_replaced(call, tmp_path, monkeypatch):
    from numba.core.caching import IndexDataCacheFile

    from dcfw import _compiling

    with monkeypatch.context() as patched:
        patched.setattr(_compiling, "_Files", IndexDataCacheFile)
        assert [call(), call()] == [(6.0, 0), (6.0, 1)]
    assert [call(), call()] == [(6.0, 0), (6.0, 1)]
