"""Quadratic assignment: instances, objective, local search and solvers.

>>> from dcfw import qap
>>> problem = qap.generators.nugent((3, 3), rng=0)
>>> res = qap.solve(problem.A, problem.B, restarts="auto", max_steps=1000, rng=0)
>>> res.fun, res.bound
(292, 261)

Everything is loaded when first used, so that ``import dcfw`` (and ``import dcfw.qap``) stays light.
"""

from __future__ import annotations

from dcfw._lazy import attach

_MODULE_OF = {  # public name -> module of this package
    "Instance": "instances",
    "Solution": "instances",
    "read": "instances",
    "read_solution": "instances",
    "load": "library",
    "names": "library",
    "evaluate": "objective",
    "gradient": "objective",
    "round_to_permutation": "objective",
    "bound": "bounds",
    "two_opt": "swaps",
    "robust_tabu": "tabu",
    "solve": "solver",
    "QAPResult": "result",
    "match": "graphs",
    "match_many": "matching.many",
    "solve_many": "matching.many",
    "ManyResult": "matching.many",
    "quadratic_assignment": "compat",
    "decompose": "quadratics",
    "relaxation": "quadratics",
}

__getattr__, __dir__, __all__ = attach(__name__, _MODULE_OF, ("generators",))
