"""Frozen ends and counts of short runs of every method; see ``frozen_methods.py``.

A change of numerics shows here first.  If it is intended, write the numbers again; if not, find the reason.
"""

from __future__ import annotations

import json

import pytest

import frozen_methods

FROZEN = json.loads(frozen_methods.FILE.read_text())
RUNS = frozen_methods.runs()


def test_every_frozen_run_is_there():
    assert list(FROZEN) == list(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_ends_where_it_did_and_costs_what_it_did(name):
    now, then = frozen_methods.run(*RUNS[name]), dict(FROZEN[name])
    assert now.pop("fun") == pytest.approx(then.pop("fun"), rel=1e-8, abs=1e-12)
    assert now.pop("gap") == pytest.approx(then.pop("gap"), rel=1e-5, abs=1e-10)
    assert now == then
