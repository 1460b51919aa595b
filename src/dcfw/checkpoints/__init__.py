"""Checkpoints: long runs that continue after a crash with the same result.

``minimize(..., checkpoint="run.npz")`` writes the state of the run to a file at intervals.  The same call
after a crash, a reboot or a kill continues from the file; its result is that of an uninterrupted run, bit for
bit: point, value, history (except the times), counts, active set.

The file holds all that the next outer step depends on: the iterate with its gradients, the tolerance, the
step rule's estimate, the atoms with their weights and images, the memory of the linear oracle (prices,
Lanczos vectors), the random generator, counters and history.  A solver passes its state to ``run.outer_step``
at the start of each outer step; other objects with state are registered by ``run.keep`` and have the methods
``get_state`` and ``set_state``.  User-defined step rules, inner loops and oracles with a memory need these
two as well; without them a checkpoint is refused.

:mod:`~dcfw.checkpoints.keeper` decides when to save, and restores; :mod:`~dcfw.checkpoints.tree` turns a
state into plain numbers and arrays; ``dcfw.checkpoints.schema`` checks it; :mod:`~dcfw.checkpoints.file`
reads and writes the file; :mod:`~dcfw.checkpoints.fingerprint` distinguishes problems.
"""

from __future__ import annotations

from dcfw.checkpoints.keeper import Checkpoint

__all__ = ["Checkpoint"]
