"""Checkpoints of solves that something else has written to.

Each is used or refused with an error that names the file, in bounded time and memory, and a file that was
refused is left as it was.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dcfw
import fuzz_checkpoints
from dcfw import functions, sets
from dcfw.checkpoints import file as checkpoint_file
from hostile_files import fuzz, mutations, read_bounded

MB = 2**20


def solve(path: Path, callback: Any = None) -> Any:
    A = np.random.default_rng(0).standard_normal((8, 8))
    return dcfw.minimize(
        functions.Quadratic(A @ A.T) - functions.L2Norm(0.5),
        sets.Simplex(8),
        maxiter=8,
        tol=0.0,
        inner="pairwise",
        callback=callback,
        checkpoint=dcfw.checkpoints.Checkpoint(path, every=0.0),
    )


@pytest.fixture(scope="module")
def checkpoint_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A checkpoint from the middle of a run: half of it is still to be done."""
    path = tmp_path_factory.mktemp("run") / "run.npz"
    states: list[bytes] = []

    def keep(intermediate_result: Any) -> None:
        if path.exists():
            states.append(path.read_bytes())

    solve(path, keep)
    assert len(states) > 4
    return states[len(states) // 2]


def test_a_mutated_checkpoint_is_refused_or_resumed(
    checkpoint_bytes: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.npz"

    @fuzz
    @given(mutations(checkpoint_bytes))
    def check(changed: bytes) -> None:
        path.write_bytes(changed)
        result = read_bounded(lambda: solve(path), memory=32 * MB, names="run.npz")
        if isinstance(result, Exception):
            assert path.read_bytes() == changed

    check()


def rewritten(content: bytes, change: Any, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return a checkpoint with another state in it, in an archive that is in order."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", compression) as new:
        for name in old.namelist():
            member = old.read(name)
            if name == "state.npy":
                text = np.load(io.BytesIO(member)).tobytes()
                buffer = io.BytesIO()
                np.save(buffer, np.frombuffer(change(text), dtype=np.uint8))
                member = buffer.getvalue()
            new.writestr(name, member)
    return out.getvalue()


def test_a_checkpoint_with_other_numbers_in_its_state_is_refused_or_resumed(
    checkpoint_bytes: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.npz"

    @fuzz
    @given(st.data())
    def check(data: st.DataObject) -> None:
        changed = rewritten(checkpoint_bytes, lambda text: data.draw(mutations(text)))
        path.write_bytes(changed)
        read_bounded(lambda: solve(path), memory=64 * MB, names="run.npz")

    check()


def test_a_compressed_checkpoint_is_not_unpacked(checkpoint_bytes: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    bomb = rewritten(checkpoint_bytes, lambda text: text + b" " * (64 * MB), zipfile.ZIP_DEFLATED)
    assert len(bomb) < MB
    path.write_bytes(bomb)
    result = read_bounded(lambda: solve(path), memory=8 * MB, names="run.npz")
    assert isinstance(result, ValueError)


@pytest.mark.parametrize("depth", [300, 900, 100_000])
def test_a_deep_state_is_refused(checkpoint_bytes: bytes, depth: int, tmp_path: Path) -> None:
    def deeper(text: bytes) -> bytes:
        header = json.loads(text)
        marked = json.dumps({**header, "tree": "HERE"})
        return marked.replace('"HERE"', '{"tuple": [' * depth + "1" + "]}" * depth).encode()

    path = tmp_path / "run.npz"
    path.write_bytes(rewritten(checkpoint_bytes, deeper))
    assert isinstance(read_bounded(lambda: solve(path), memory=64 * MB, names="run.npz"), ValueError)


def test_an_array_larger_than_its_member_is_not_allocated(checkpoint_bytes: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(checkpoint_bytes)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            member = old.read(name)
            if name == "data.npy":
                header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000,), }\n"
                member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"abc"
            new.writestr(name, member)
    path.write_bytes(out.getvalue())
    result = read_bounded(lambda: solve(path), memory=8 * MB, names="run.npz")
    assert isinstance(result, ValueError)
    assert checkpoint_file.FORMAT.encode() in checkpoint_bytes


def test_mutated_checkpoints_are_refused_or_resumed_in_bounded_time_and_memory():
    """Run more of them with ``python tests/cases/fuzz_checkpoints.py 20000``."""
    found = fuzz_checkpoints.run(150, seed=1).counts
    assert set(found) == {"refused", "resumed"}


@pytest.mark.parametrize("digits", [50, 4000])
def test_shapes_with_many_digits_are_refused_at_once(tmp_path, digits):
    path = tmp_path / "run.npz"
    fuzz_checkpoints.solve("simplex", path, 2)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = json.loads(np.load(io.BytesIO(members["state.npy"])).tobytes())
    text["arrays"] = [["<f8", ["DIGITS"] * 30, "C", 0, False]] * 1000
    hostile = json.dumps(text).replace('"DIGITS"', "9" * digits).encode()
    out = io.BytesIO()
    np.save(out, np.frombuffer(hostile, dtype=np.uint8))
    with pytest.raises(ValueError, match=r"digits|description"):
        checkpoint_file._parsed(np.frombuffer(hostile, dtype=np.uint8))
    assert fuzz_checkpoints.outcome("simplex", {**members, "state.npy": out.getvalue()}, path) == "refused"


def test_a_shape_of_long_numbers_is_not_multiplied_out(tmp_path):
    path = tmp_path / "run.npz"
    members, state = state_of("simplex", path)
    state["arrays"] = [["<f8", [10**3999] * 800, "C", 0, False]]
    assert resumed("simplex", path, members, state) == "refused"


@pytest.mark.parametrize("value", [0.0, -1e9, -1e300, 1e9])
def test_an_assignment_solver_whose_numbers_are_overwritten_still_gives_permutations(tmp_path, value):
    path = tmp_path / "run.npz"
    members, state = state_of("birkhoff fw", path)
    data = np.load(io.BytesIO(members["data.npy"])).copy()
    for place in fuzz_checkpoints._nodes(state["tree"]["dict"]["parts"]["dict"]["oracle"]):
        if isinstance(place, dict) and "array" in place:
            dtype, shape, _, at, _ = state["arrays"][place["array"]]
            if dtype == "<f8":
                size = 8 * math.prod(shape)
                data[at : at + size] = np.full(math.prod(shape), value).view(np.uint8)
    out = io.BytesIO()
    np.save(out, data)
    found = resumed("birkhoff fw", path, {**members, "data.npy": out.getvalue()}, state)
    assert found in ("refused", "resumed")


def test_a_planted_link_beside_a_checkpoint_is_not_followed(tmp_path):
    path, victim = tmp_path / "run.npz", tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "run.npz.tmp").symlink_to(victim)
    fuzz_checkpoints.solve("simplex", path, 2)
    assert victim.read_text() == "mine"
    assert path.exists()


def state_of(problem: str, path: Path) -> tuple[dict[str, bytes], Any]:
    """Return the members of a checkpoint that a run has written, and its state as JSON."""
    fuzz_checkpoints.solve(problem, path, 2, every=0.0)
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    return members, json.loads(np.load(io.BytesIO(members["state.npy"])).tobytes())


def resumed(problem: str, path: Path, members: dict[str, bytes], state: Any) -> str:
    """Return what becomes of a run that is resumed from a changed state."""
    out = io.BytesIO()
    np.save(out, np.frombuffer(json.dumps(state).encode(), dtype=np.uint8))
    return fuzz_checkpoints.outcome(problem, {**members, "state.npy": out.getvalue()}, path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nit", -5),
        ("n_lmo", -(10**6)),
        ("seconds", -1e9),
        ("noise", 1e200),
        ("eps", float("nan")),
        ("cap", -1),
    ],
)
def test_a_state_with_a_value_that_no_run_writes_is_refused(tmp_path, name, value):
    path = tmp_path / "run.npz"
    members, state = state_of("simplex", path)
    places = [
        node for node in fuzz_checkpoints._nodes(state["tree"]) if isinstance(node, dict) and name in node
    ]
    assert places
    for node in places:
        node[name] = value
    assert resumed("simplex", path, members, state) == "refused"


def test_an_array_in_the_place_of_a_tolerance_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    members, state = state_of("cgs", path)
    parts = state["tree"]["dict"]["solver"]["tuple"]
    parts[2] = parts[0]
    assert resumed("cgs", path, members, state) == "refused"


@pytest.mark.parametrize("constant", [0, 0.0, -1.0, -1, False, 1e308 * 10, "x"])
def test_a_constant_from_which_backtracking_would_never_end_is_refused(tmp_path, constant):
    path = tmp_path / "run.npz"
    members, state = state_of("backtracking", path)
    state["tree"]["dict"]["parts"]["dict"]["step"] = constant
    assert resumed("backtracking", path, members, state) == "refused"
