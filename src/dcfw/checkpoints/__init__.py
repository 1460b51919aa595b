"""Checkpoints: long runs that survive a kill and go on as if nothing had happened.

``minimize(..., checkpoint="run.npz")`` writes the state of the run to a file every so often.  The same call
after a crash, a reboot or a kill finds the file and continues from there; its result is that of a run that
was never interrupted, bit for bit: point, value, history (except the times), counts, active set.

A run can be resumed exactly because all that its next outer step depends on is in the file: the iterate with
its gradients, the tolerance, the step rule's estimate, the atoms with their weights and images, what the
linear oracle remembers (prices, Lanczos vectors), the random generator, counters and history.  A solver tells
at the top of each outer step that it stands there (``run.outer_step``), with its own state; everything else
that lives longer than a step is registered with the run (``run.keep``) and has two methods, ``get_state`` and
``set_state``.  Step rules, inner loops and oracles of your own that remember something need these two as
well; without them a checkpoint is refused rather than inexact.

The parts: :mod:`~dcfw.checkpoints.keeper` decides when to save and restores; :mod:`~dcfw.checkpoints.tree`
turns a state into plain numbers and arrays; :mod:`~dcfw.checkpoints.file` reads and writes the file;
:mod:`~dcfw.checkpoints.fingerprint` tells one problem from another.
"""

from __future__ import annotations

from dcfw.checkpoints.keeper import Checkpoint

__all__ = ["Checkpoint"]
