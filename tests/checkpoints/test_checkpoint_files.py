"""The file of a checkpoint: complete or absent, refused if it is not the right one, used by one run."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dcfw
from checkpoint_cases import differences, quadratic, solve
from dcfw import _protocol, functions, sets, splits, steps
from dcfw.checkpoints import Checkpoint
from dcfw.checkpoints import file as files
from dcfw.checkpoints.tree import Capture, Foreign, Unsupported, rebuild
from dcfw.kernels import native
from dcfw.sets.atoms import OneHot
from dcfw.sets.base import Oracle

NAME = "dcfw blended simplex"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.npz"


def test_the_file_can_be_looked_at_without_pickles(path: Path) -> None:
    result = solve(NAME, checkpoint=Checkpoint(path, every=0.0))
    with np.load(path, allow_pickle=False) as archive:
        assert archive["x"].shape == result.x.shape
        np.testing.assert_array_equal(archive["history"][:, 0], result.history["nit"][:-1])


def test_nothing_but_the_file_is_left_behind(path: Path) -> None:
    solve(NAME, checkpoint=path)
    assert os.listdir(path.parent) == ["run.npz"]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"step": "open-loop", "inner": "fw"}, "step"),
        ({"inner": "away"}, "inner"),
        ({"tolerance": "progress"}, "tolerance"),
        ({"max_inner": 7}, "max_inner"),
        ({"method": "boosted"}, "method"),
        ({"x0": np.eye(12)[0]}, "x0"),
        ({"rng": 3}, "rng"),
    ],
)
def test_another_call_is_refused_by_name(path: Path, change: dict[str, Any], name: str) -> None:
    solve(NAME, checkpoint=path)
    with pytest.raises(ValueError, match=rf"belongs to another run: it differs in .*{name} \(was"):
        solve(NAME, checkpoint=path, **change)


def test_other_data_are_refused(path: Path) -> None:
    domain, phi = sets.Simplex(12), quadratic()
    dcfw.minimize(phi, domain, checkpoint=path)
    other = dcfw.functions.Quadratic(phi.A, phi.b + 1e-5)
    with pytest.raises(ValueError, match="objective or domain"):
        dcfw.minimize(other, domain, checkpoint=path)
    with pytest.raises(ValueError, match="domain"):
        dcfw.minimize(phi, sets.Simplex(12, radius=2.0), checkpoint=path)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda f: f + functions.SquaredNorm(0.1), lambda f: f + functions.SquaredNorm(1e3)),
        (lambda f: splits.sliding(f, 200.0), lambda f: splits.sliding(f, 300.0)),
        (lambda f: f, lambda f: functions.Quadratic(2.0 * f.A, f.b, convex=True)),
    ],
    ids=["a square added", "another constant of the split", "another matrix"],
)
def test_data_that_cannot_be_seen_at_an_x0_of_zero_are_refused_too(
    path: Path, first: Any, second: Any
) -> None:
    domain, f = sets.L1Ball(12, 2.0), quadratic()
    res = dcfw.minimize(first(f), domain, checkpoint=path, max_lmo=50)
    assert res.history["fun"][0] == 0.0
    with pytest.raises(ValueError, match="objective or domain"):
        dcfw.minimize(second(f), domain, checkpoint=path, max_lmo=50)


def test_a_link_is_followed(path: Path) -> None:
    link = path.with_name("link.npz")
    link.symlink_to(path)
    solve(NAME, checkpoint=link)
    assert link.is_symlink()
    assert path.exists()


def test_an_oracle_that_answers_nonsense_is_reported_as_without_a_checkpoint(path: Path) -> None:
    bad = dcfw.functions.Smooth(lambda x: float(x.sum()), lambda x: x * np.nan, lipschitz=1.0)
    plain = dcfw.minimize(bad, sets.Simplex(3), method="fw")
    assert plain.status.name == "BAD_ORACLE"
    assert dcfw.minimize(bad, sets.Simplex(3), method="fw", checkpoint=path).message == plain.message


def test_every_truncation_of_a_file_is_refused(path: Path) -> None:
    solve(NAME, checkpoint=path)
    whole = path.read_bytes()
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"'.*run\.npz' cannot be used .* remove it to start again"):
            solve(NAME, checkpoint=path)
        assert path.read_bytes() == whole[:size]


@given(place=st.floats(0.0, 1.0, exclude_max=True), change=st.integers(1, 255))
def test_a_file_with_a_flipped_byte_is_refused_or_gives_the_same_result(
    tmp_path_factory: pytest.TempPathFactory, place: float, change: int
) -> None:
    path = tmp_path_factory.mktemp("flipped") / "run.npz"
    first = solve(NAME, checkpoint=path)
    whole = bytearray(path.read_bytes())
    whole[int(place * len(whole))] ^= change
    path.write_bytes(whole)
    refused = ""
    try:
        again = solve(NAME, checkpoint=path)
    except ValueError as error:
        refused = str(error)
    # A byte of the archive that nobody reads, such as a date, may be anything.
    assert "cannot be used" in refused if refused else differences(first, again) == []


@pytest.mark.parametrize("content", [b"hello", b"PK\x03\x04", "npz"])
def test_a_foreign_file_is_refused_and_left_alone(path: Path, content: Any) -> None:
    if content == "npz":
        np.savez(path, x=np.zeros(3))
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="no checkpoint of dcfw"):
        solve(NAME, checkpoint=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("place", "error"),
    [("file._members", MemoryError), ("file._members", PermissionError), ("keeper.rebuild", MemoryError)],
)
def test_a_lack_of_memory_or_rights_is_no_reason_to_remove_a_checkpoint(
    path: Path, monkeypatch: pytest.MonkeyPatch, place: str, error: type[Exception]
) -> None:
    result = solve(NAME, checkpoint=Checkpoint(path, every=0.0))

    def fail(*_: Any) -> Any:
        raise error("no room")

    with monkeypatch.context() as patch:
        patch.setattr(f"dcfw.checkpoints.{place}", fail)
        with pytest.raises(error, match="no room"):
            solve(NAME, checkpoint=path)
    assert not differences(solve(NAME, checkpoint=path), result)


def test_two_runs_on_one_file_are_told_apart(path: Path) -> None:
    def again(_: object) -> None:
        with pytest.raises(BlockingIOError, match="being written by another run"):
            solve(NAME, checkpoint=path)
        raise StopIteration

    assert solve(NAME, checkpoint=path, callback=again).status.name == "CALLBACK"


def test_a_left_over_lock_file_does_not_lock(path: Path) -> None:
    Path(f"{path}.lock").touch()
    assert solve(NAME, checkpoint=path).success


def test_a_folder_that_is_not_there_is_known_before_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="give a path in a folder that exists"):
        solve(NAME, checkpoint=tmp_path / "nowhere" / "run.npz", callback=lambda _: pytest.fail("a step"))


def test_a_folder_without_permission_is_known_before_the_first_step(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError, match="cannot be written"):
        solve(NAME, checkpoint=path, callback=lambda _: pytest.fail("a step"))


def test_a_disk_that_fills_up_does_not_end_the_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, calls = files.write, 0

    def fill_up(*arguments: Any, **more: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(*arguments, **more)

    monkeypatch.setattr(files, "write", fill_up)
    with pytest.warns(RuntimeWarning, match="could not be written .*No space left"):
        result = solve(NAME, checkpoint=Checkpoint(path, every=0.0))
    monkeypatch.undo()
    assert differences(result, solve(NAME, checkpoint=path)) == []


def test_a_disk_that_is_full_from_the_start_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write", full)
    with pytest.raises(OSError, match="cannot be written"):
        solve(NAME, checkpoint=path)


def test_a_step_rule_that_may_remember_something_is_refused(path: Path) -> None:
    class Mine:
        def bind(self, f: Any, domain: Any) -> Any:
            return lambda segment: 2.0 / (segment.k + 2.0)

    with pytest.raises(TypeError, match="get_state"):
        solve(NAME, checkpoint=path, step=Mine(), inner="fw")


def test_a_step_rule_and_an_oracle_that_declare_no_state_are_accepted(path: Path) -> None:
    class Mine:
        def bind(self, f: Any, domain: Any) -> Any:
            def step(segment: Any) -> float:
                return float(2.0 / (segment.k + 2.0))

            step.stateless = True  # type: ignore[attr-defined]
            return step

    class Plain(Oracle):
        stateless = True

        def __call__(self, G: Any) -> Any:
            return OneHot(int(G.argmin()), 1.0, (12,))

    class Overriding(Plain):
        def __call__(self, G: Any) -> Any:
            return super().__call__(G)

    solve(NAME, checkpoint=path, step=Mine(), inner="fw")
    assert _protocol.memory_known(Plain(sets.Simplex(12)))
    assert not _protocol.memory_known(Overriding(sets.Simplex(12)))  # declared for another __call__
    assert _protocol.memory_known(Oracle(sets.Simplex(12)))


def test_a_users_oracle_with_a_state_is_resumed(path: Path) -> None:
    class Counting(Oracle):
        calls = 0

        def __call__(self, G: Any) -> Any:
            self.calls += 1
            return OneHot((int(G.argmin()) + self.calls // 5) % 12, 1.0, (12,))

    class Saved(Counting):
        def get_state(self) -> int:
            return self.calls

        def set_state(self, state: int) -> None:
            self.calls = state

    class Mine(sets.Simplex):
        kind: Any = Counting

        def oracle(self) -> Oracle:
            return self.kind(self)  # type: ignore[no-any-return]

    def run(domain: Any, **more: Any) -> Any:
        return dcfw.minimize(quadratic(), domain, method="fw", step="open-loop", **{"maxiter": 30, **more})

    with pytest.raises(TypeError, match="get_state"):
        run(Mine(12), checkpoint=path)
    domain = Mine(12)
    domain.kind = Saved
    run(domain, maxiter=7, checkpoint=path)
    assert differences(run(domain), run(domain, checkpoint=path)) == []


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"restarts": 2}, ValueError, "restarts=1"),
        ({"checkpoint": 3}, TypeError, "checkpoint must be a path"),
        ({"checkpoint": "."}, ValueError, "is a folder"),
    ],
)
def test_what_cannot_be_saved_is_refused(
    path: Path, arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        solve(NAME, **{"checkpoint": path, **arguments})


def test_a_checkpoint_takes_a_sensible_interval() -> None:
    with pytest.raises(ValueError, match="every"):
        Checkpoint("run.npz", every=-1.0)
    assert repr(Checkpoint("run.npz")) == "Checkpoint('run.npz', every=30)"


NUMBERS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))


@given(
    tree=st.recursive(
        NUMBERS,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.tuples(inner, inner),
            st.dictionaries(st.text(max_size=3), inner, max_size=3),
        ),
        max_leaves=12,
    )
)
def test_states_come_back_as_they_were(tree: Any) -> None:
    capture = Capture(tree, {})
    assert repr(rebuild(capture.text, capture.arrays, {}, np.zeros(1))) == repr(tree)


def test_arrays_keep_their_layout_and_scalars_their_type(path: Path) -> None:
    state = [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.float32(1.5),
        np.arange(8)[::2],
        np.zeros((0, 2)),
    ]
    capture = Capture(state, {})
    files.write(path, {"tree": capture.text}, capture.arrays)
    found = files.read(path)
    assert found is not None
    again = rebuild(found[0]["tree"], found[1], {}, np.zeros(1))
    assert again[0].flags.f_contiguous
    assert type(again[1]) is np.float32
    for old, new in zip(state, again, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    ("domain", "shape"),
    [
        (sets.Birkhoff(6), (6, 6)),
        (sets.Product([sets.Birkhoff(6), sets.Simplex(4)]), (40,)),
        (sets.SchattenBall((70, 60), 1.0), (70, 60)),
        (sets.Spectraplex(70), (70, 70)),
    ],
)
def test_a_restored_oracle_answers_like_the_one_that_was_saved(domain: Any, shape: tuple[int, ...]) -> None:
    rng, dependent = np.random.default_rng(0), False
    # Few different numbers: among equals, and to the last bits, answers depend on what an oracle remembers.
    for _ in range(12):
        past, present = rng.integers(0, 2, (2, *shape)).astype(float)
        saved, restored, fresh = domain.oracle(), domain.oracle(), domain.oracle()
        saved(past)
        restored.set_state(saved.get_state())
        answer = saved(present).dense()
        np.testing.assert_array_equal(restored(present).dense(), answer)
        dependent |= not np.array_equal(fresh(present).dense(), answer)
    # Without the kernels assignments are solved by SciPy, which remembers nothing.
    assert dependent or native is None


def test_backtracking_keeps_its_constant_between_steps() -> None:
    step = steps.Backtracking(L=4.0).bind(None, None)  # type: ignore[arg-type]
    step.set_state(8.0)  # type: ignore[attr-defined]
    assert step.get_state() == 8.0  # type: ignore[attr-defined]


# -- files that are whole, but that no run has written ----------------------------------------------------


def forge(path: Path, data: bytes = bytes(64), **changes: Any) -> None:
    """Write an archive like a checkpoint of one array of eight numbers, with some changes."""
    header = {
        "format": files.FORMAT,
        "tree": {"array": 0},
        "arrays": [["<f8", [8], "C", 0, False]],
        **changes,
    }
    state = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, state=state, data=np.frombuffer(data, dtype=np.uint8))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"format": "dcfw-checkpoint-0"}, "its format is 'dcfw-checkpoint-0', not 'dcfw-checkpoint-1'"),
        ({"arrays": [["<c16", [4], "C", 0, False]]}, "an array that no state has"),
        ({"arrays": [["<f8", [8], "K", 0, False]]}, "an array that no state has"),
        ({"arrays": [["<f8", [-8], "C", 0, False]]}, "an array that no state has"),
        ({"arrays": [["<f8", [9], "C", 0, False]]}, "more data than it holds"),
        ({"arrays": [["<f8", [8], "C", 8, False]]}, "more data than it holds"),
        ({"arrays": []}, "more data than it describes"),
    ],
)
def test_a_header_that_does_not_fit_its_data_is_refused(
    path: Path, changes: dict[str, Any], match: str
) -> None:
    forge(path)
    found = files.read(path)
    assert found is not None
    np.testing.assert_array_equal(found[1][0], np.zeros(8))
    forge(path, **changes)
    with pytest.raises(ValueError, match=match):
        files.read(path)


def test_only_real_numbers_are_written(path: Path) -> None:
    with pytest.raises(TypeError, match="an array of dtype complex128"):
        files.write(path, {}, [np.zeros(2, dtype=complex)])
    assert not path.exists()


def test_the_error_for_a_state_that_cannot_be_saved_names_the_object() -> None:
    with pytest.raises(Unsupported, match=r"keys that are not strings: \[1, 2\]"):
        Capture({"memory": {1: "a", 2: "b"}}, {})
    with pytest.raises(Unsupported, match=r"an object of type builtins\.set"):
        Capture([{1, 2}], {})


def test_arrays_of_another_library_need_a_start_of_that_library() -> None:
    with pytest.raises(ValueError, match="arrays of another library than NumPy"):
        rebuild({"array": 0}, [Foreign(np.zeros(2))], {}, np.zeros(2))


def test_a_lock_that_its_last_owner_has_just_removed_is_taken_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, acquire, asked = path.with_name("run.npz.lock"), files._acquire, []

    def removed_at_first(descriptor: int) -> None:
        acquire(descriptor)
        asked.append(descriptor)
        if len(asked) == 1:
            lock.unlink()

    monkeypatch.setattr(files, "_acquire", removed_at_first)
    with files.locked(path):
        assert len(asked) == 2
        assert lock.exists()
    assert not lock.exists()


def test_a_history_of_other_columns_is_refused(path: Path) -> None:
    solve(NAME, checkpoint=path)
    found = files.read(path)
    assert found is not None
    header, arrays, readable = found
    readable["history"] = readable["history"][:, 1:]
    del header["format"], header["arrays"]
    files.write(path, header, arrays, **readable)
    with pytest.raises(ValueError, match=r"cannot be used \(ValueError: .*history"):
        solve(NAME, checkpoint=path)


@pytest.mark.parametrize("changed", ["parts", "objective"])
def test_a_state_of_other_parts_or_of_no_objective_is_refused(path: Path, changed: str) -> None:
    solve(NAME, checkpoint=path)
    found = files.read(path)
    assert found is not None
    header, arrays, readable = found
    if changed == "parts":
        header["tree"]["dict"]["parts"]["dict"]["stranger"] = 1.0
        match = r"cannot be used \(ValueError: it has the parts .*'stranger'"
    else:
        del header["fingerprint"]["objective"]
        match = "it differs in objective or domain"
    del header["format"], header["arrays"]
    files.write(path, header, arrays, **readable)
    with pytest.raises(ValueError, match=match):
        solve(NAME, checkpoint=path)


@pytest.mark.parametrize("entry", [None, ["a", 1], [], [None, 1.0], {}, [10**400, 1.0]])
def test_a_malformed_fingerprint_is_damage_like_any_other(path: Path, entry: Any) -> None:
    def damage(header: dict[str, Any]) -> None:
        header["fingerprint"]["objective"] = dict.fromkeys(header["fingerprint"]["objective"], entry)

    rewrite(path, damage)
    with pytest.raises(ValueError, match=r"run\.npz' cannot be used .*remove it to start again"):
        solve(NAME, checkpoint=path)


@pytest.mark.parametrize("fingerprint", [[1], "text", 5, None])
def test_a_fingerprint_that_is_not_a_table_is_damage_like_any_other(path: Path, fingerprint: Any) -> None:
    rewrite(path, lambda header: header.update(fingerprint=fingerprint))
    with pytest.raises(ValueError, match=r"run\.npz' cannot be used .*remove it to start again"):
        solve(NAME, checkpoint=path)


def rewrite(path: Path, change: Any) -> None:
    """Write a checkpoint whose header has been changed."""
    solve(NAME, checkpoint=path)
    found = files.read(path)
    assert found is not None
    header, arrays, readable = found
    change(header)
    del header["format"], header["arrays"]
    files.write(path, header, arrays, **readable)


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    files.write(path, {}, [np.arange(3.0)])
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, fails, full)
    with pytest.raises(OSError, match="No space left"):
        files.write(path, {}, [np.arange(4.0)])
    assert os.listdir(path.parent) == ["run.npz"]
    assert path.read_bytes() == before
