"""A run that is interrupted and resumed ends where an uninterrupted one does, to the last bit."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkpoint_cases
from checkpoint_cases import CASES, differences, solve
from dcfw.checkpoints import Checkpoint
from dcfw.checkpoints import keeper as keeping
from dcfw.checkpoints.keeper import Keeper

NAMES = [name for name in CASES if name not in ("dcfw torch", "stochastic unseeded")]
KILLED = [
    "dcfw fw simplex",
    "dcfw birkhoff blended",
    "dcfw spectral",
    "dcfw float32",
    "dcfw auto",
    "boosted",
    "fw birkhoff",
    "fw-k",
    "fw-m",
    "cgs birkhoff",
    "block random",
    "graduated",
    "stochastic",
    "sfw",
]


class Crash(Exception):
    """Stands for whatever ends a process."""


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests simulate no power cut, and write some hundred files.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def resumed_until_it_ends(name: str, path: Path, every: float = 0.0, **more: Any) -> tuple[Any, int]:
    """Solve a case, crashing after one to ten outer steps again and again."""
    chance, crashes = random.Random(0), 0
    while True:
        left = chance.randint(2, 10)

        def count(_: object) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Crash

        try:
            return solve(name, checkpoint=Checkpoint(path, every), callback=count, **more), crashes
        except Crash:
            crashes += 1


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    straight = solve(name)
    result, crashes = resumed_until_it_ends(name, tmp_path / "run.npz")
    assert crashes > 0 or len(straight.history) < 10
    assert differences(straight, result) == []


@pytest.mark.parametrize("name", NAMES[::3])
def test_a_state_that_is_written_steps_after_it_was_captured_is_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, calls = Keeper.outer_step, 0

    def every_third(keeper: Keeper, state: Any, settled: bool) -> Any:
        nonlocal calls
        calls += 1
        return plain(keeper, state, settled and calls % 3 == 0)

    monkeypatch.setattr(keeping, "SHARE", 0.0)
    monkeypatch.setattr(Keeper, "outer_step", every_third)
    # Nothing is written on the way, only what was captured last when the run crashes.
    result, _ = resumed_until_it_ends(name, tmp_path / "run.npz", every=np.inf)
    assert differences(solve(name), result) == []


@pytest.mark.parametrize("name", NAMES[::3])
def test_a_run_that_ended_at_maxiter_goes_on_with_a_larger_one(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    straight = solve(name)
    first = solve(name, checkpoint=Checkpoint(path, every=0.0), maxiter=min(4, straight.nit))
    assert first.nit <= straight.nit
    assert differences(straight, solve(name, checkpoint=path)) == []


@pytest.mark.parametrize("name", ["dcfw fw simplex", "boosted", "block random", "stochastic", "sfw"])
def test_a_relative_tolerance_stays_relative_to_the_very_first_gap(name: str, tmp_path: Path) -> None:
    straight = solve(name, tol=0.0, rtol=2e-2)
    result, _ = resumed_until_it_ends(name, tmp_path / "run.npz", tol=0.0, rtol=2e-2)
    assert differences(straight, result) == []
    first = straight.history["gap"][0]
    assert straight.success
    assert straight.gap <= 2e-2 * first
    assert abs(np.log(first)) > 0.1  # or a quotient would do as well as a product


@pytest.mark.parametrize("name", ["dcfw blended simplex", "cgs birkhoff", "block gap", "fw away lazy"])
def test_a_run_that_ended_at_max_lmo_goes_on_with_a_larger_one(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    straight = solve(name)
    for budget in range(4, min(straight.n_lmo, 24), 2):
        solve(name, checkpoint=Checkpoint(path, every=0.0), max_lmo=budget)
    assert differences(straight, solve(name, checkpoint=path)) == []


def test_a_finished_run_returns_its_result_again_without_new_steps(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    first = solve("dcfw blended simplex", checkpoint=Checkpoint(path, every=0.0))
    assert differences(first, solve("dcfw blended simplex")) == []
    seen: list[int] = []
    again = solve("dcfw blended simplex", checkpoint=path, callback=lambda r: seen.append(r.nit))
    assert differences(first, again) == []
    assert seen == [first.nit]


def test_a_smaller_tolerance_goes_on_from_a_converged_run(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    coarse = solve("dcfw blended simplex", checkpoint=path, tol=1e-1)
    fine = solve("dcfw blended simplex", checkpoint=path, tol=1e-6)
    assert coarse.success
    assert coarse.nit < fine.nit
    assert differences(solve("dcfw blended simplex", tol=1e-6), fine) == []


def test_a_run_from_an_active_set_resumes(tmp_path: Path) -> None:
    atoms = solve("dcfw blended simplex", maxiter=3).active_set
    straight = solve("dcfw blended simplex", x0=atoms)
    result, crashes = resumed_until_it_ends("dcfw blended simplex", tmp_path / "run.npz", x0=atoms)
    assert crashes > 0
    assert differences(straight, result) == []


def test_torch_runs_resume_as_torch_runs(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    straight = solve("dcfw torch")
    result, crashes = resumed_until_it_ends("dcfw torch", tmp_path / "run.npz")
    assert crashes > 0
    assert isinstance(result.x, torch.Tensor)
    assert differences(straight, result) == []


def test_an_unseeded_run_goes_on_with_the_draws_that_it_began_with(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    result, crashes = resumed_until_it_ends("stochastic unseeded", path)
    assert crashes > 0
    assert differences(result, solve("stochastic unseeded", checkpoint=path)) == []


def test_a_keyboard_interrupt_leaves_a_file_to_resume_from(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"

    def interrupt(result: Any) -> None:
        if result.nit == 7:
            raise KeyboardInterrupt

    first = solve("fw-k", checkpoint=Checkpoint(path, every=np.inf), callback=interrupt)
    assert first.status.name == "INTERRUPTED"
    assert differences(solve("fw-k"), solve("fw-k", checkpoint=path)) == []


def test_seconds_of_all_calls_are_counted_together(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"

    def slow(_: object) -> None:
        time.sleep(0.02)

    first = solve("fw-k", checkpoint=Checkpoint(path, every=0.0), maxiter=10, callback=slow)
    assert solve("fw-k", checkpoint=path, maxiter=20).time > 0.5 * first.time
    limited = solve("fw-k", checkpoint=path, time_limit=0.5 * first.time)
    assert limited.status.name == "TIME_LIMIT"


def test_runs_killed_at_random_moments_end_like_uninterrupted_ones(tmp_path: Path) -> None:
    script = Path(checkpoint_cases.__file__)
    command = [sys.executable, str(script), str(tmp_path), "0.005", *KILLED]
    chance, kills = random.Random(0), 0
    while True:
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        try:
            child.wait(timeout=chance.uniform(0.3, 1.6) if kills < 5 else 120)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            kills += 1
        child.stdout.close()
        if child.returncode != -9:
            break
    assert child.returncode == 0
    assert kills >= 3
    for name in KILLED:
        assert differences(solve(name), solve(name, checkpoint=tmp_path / f"{name}.npz")) == [], name
