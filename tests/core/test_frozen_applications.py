"""Frozen ends and counts of short runs of QAP, align and torch; see ``frozen_applications.py``.

A change of numerics shows here first.  If it is intended, write the numbers again; if not, find the reason.
"""

from __future__ import annotations

import json

import pytest

import frozen_applications

FROZEN = json.loads(frozen_applications.FILE.read_text())
RUNS = frozen_applications.runs()


def test_every_frozen_run_is_there():
    assert list(FROZEN) == list(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_an_application_ends_where_it_did_and_costs_what_it_did(name):
    if name.startswith("torch"):
        pytest.importorskip("torch", reason="dcfw.torch needs PyTorch")
    now, then = frozen_applications.run(*RUNS[name]), dict(FROZEN[name])
    floats = now.pop("floats")
    for what, expected in then.pop("floats").items():
        # BLAS rounds in other ways on other processors, and gaps are differences of close numbers.
        assert floats.pop(what) == pytest.approx(expected, rel=1e-3 if what == "gap" else 1e-6, abs=1e-9)
    assert not floats
    assert now == then
