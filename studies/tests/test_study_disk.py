"""A disk that is full and a folder that cannot be written are named, and what was stored stays.

The full disk is a real one, a file system of some hundred kilobytes in memory, where the system lets us
mount it.  Where it does not, a limit on the size of files stands in for it.  Both are met by the whole
command: a runner, its worker processes, the store.
"""

import json
import subprocess
import sys

import pytest

from dcfw_studies import Store, Task
from places import in_namespace, shell

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux' mounts and limits")

STUDY = """
import sys
from dcfw_studies import Store, StoreError, Study, run

def row(dataset, method, seed):
    return {"value": seed, "ballast": str(seed) * 4000}

study = Study("disk", row, ["a"], ["x"], range(10, 90))
path, n_jobs = sys.argv[1], int(sys.argv[2])
reported = []
try:
    with Store(path) as store:
        run(study, store, n_jobs=n_jobs, progress=lambda d, n, task, result: reported.append(task.seed))
except StoreError as error:
    print(error)
else:
    print("no error")
"""

CHECK = """
with Store(path, readonly=True) as store:
    kept = [row["value"] for row in store.rows(study)]
assert kept, "nothing was stored"
assert set(reported) <= set(kept), "a reported row was lost"
print(len(kept))
"""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_full_disk_is_named_keeps_the_rows_and_the_study_goes_on_later(tmp_path, n_jobs):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=400k tmpfs {disk} &&"
    if subprocess.run(["unshare", "-rm", "bash", "-c", f"{mount} true"], capture_output=True).returncode:
        pytest.skip("this system does not let us mount a small disk")
    # Another file takes half of the disk; when it is gone, the same study goes on.  All of this in
    # one process, because the disk vanishes with it.
    code = f"""
import os
open({str(disk / "other")!r}, "wb").write(b"x" * 150_000)
{STUDY}{CHECK}
os.truncate({str(disk / "other")!r}, 0)
before = len(kept)
try:
    with Store(path) as store:
        run(study, store, n_jobs=n_jobs)
except StoreError as error:
    print(error)
with Store(path, readonly=True) as store:
    print(len(store.rows(study)) > before)
"""
    done = in_namespace(f'{mount} exec {sys.executable} -c "$CODE" {disk / "s.db"} {n_jobs}', CODE=code)
    assert done.returncode == 0, done.stderr
    message, kept, _, more = done.stdout.splitlines()
    assert "the disk is full" in message
    assert "every row reported as finished is kept" in message
    assert 0 < int(kept) < 80
    assert more == "True"


def test_a_limit_on_the_size_of_files_is_named_and_the_study_goes_on_without_it(tmp_path):
    path = tmp_path / "s.db"
    command = f'{sys.executable} -c "$CODE" {path} 2'
    done = shell(["bash", "-c", f"ulimit -f 150; {command}"], CODE=STUDY + CHECK)
    assert done.returncode == 0, done.stderr
    message, kept = done.stdout.splitlines()
    assert "every row reported as finished is kept" in message
    assert "quota" in message or "full" in message
    assert 0 < int(kept) < 80
    again = shell(["bash", "-c", command], CODE=STUDY + CHECK)
    assert again.stdout.splitlines() == ["no error", "80"], again.stderr


def test_a_read_only_disk_is_one_line_and_exit_code_1_on_the_command_line(tmp_path):
    (tmp_path / "disk").mkdir()
    old, new = tmp_path / "disk" / "old.db", tmp_path / "disk" / "new.db"
    with Store(old) as store:
        store.finish(Task("a", "fw", 0, study="demo"), {"value": 1}, seconds=1.0)
    mount = f"mount --bind {old.parent} {old.parent} && mount -o remount,ro,bind {old.parent} &&"
    if subprocess.run(["unshare", "-rm", "bash", "-c", f"{mount} true"], capture_output=True).returncode:
        pytest.skip("this system does not let us mount a folder read-only")
    for path in (old, new):
        command = f"-m dcfw_studies reproduce inner --store {path} -o {tmp_path / 'out'}"
        done = in_namespace(f"{mount} {sys.executable} {command}")
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.startswith(f"dcfw-studies: store {path}: ")
        assert "writable" in done.stderr
        assert done.stderr.count("\n") == 1
    done = in_namespace(f"{mount} {sys.executable} -m dcfw_studies study status {old} --json")
    assert json.loads(done.stdout)["studies"][0]["done"] == 1, done.stderr
    assert not new.exists()
