"""Savings of active sets on the QAP: the paper's split with vanilla and with blended inner steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfw_studies.qap_tables import Block, Runs
from dcfw_studies.statistics import t_interval, win_loss_tie

VANILLA, BLENDED = "dcfw-1", "blended-1"


def active_sets(runs: Runs) -> list[dict[str, Any]]:
    """Compare the two on all instances that both have with seed 0, and on their largest common block.

    Return one entry per block: geometric means of the LAP solves and of their ratio, mean errors, and the
    mean difference of the errors (blended minus vanilla) with its 90 % interval over the seeds.
    """
    if not {VANILLA, BLENDED} <= set(runs.methods):
        return []
    blocks = [runs.block([VANILLA, BLENDED], seeds=[0]), runs.block([VANILLA, BLENDED])]
    return [_compare(runs, block) for block in dict.fromkeys(blocks) if block.size]


def _compare(runs: Runs, block: Block) -> dict[str, Any]:
    def column(name: str) -> dict[str, np.ndarray]:
        return {m: runs.get(name, m, block) for m in (VANILLA, BLENDED)}

    laps = {m: np.maximum(found.astype(float), 1.0) for m, found in column("n_lmo").items()}
    errors = {m: found.astype(float) for m, found in column(runs.error).items()}
    values = column("value")
    return {
        "instances": len(block.instances),
        "largest_n": max(runs.sizes[name] for name in block.instances),
        "seeds": list(block.seeds),
        "laps": {m: _geometric(found) for m, found in laps.items()},
        "ratio": _geometric(laps[VANILLA] / laps[BLENDED]),
        "errors": {m: float(found.mean()) for m, found in errors.items()},
        "difference": t_interval((errors[BLENDED] - errors[VANILLA]).mean(axis=0)).plain(),
        "score": win_loss_tie(values[BLENDED], values[VANILLA])._asdict(),
    }


def _geometric(values: np.ndarray) -> float:
    return float(np.exp(np.log(values).mean()))
