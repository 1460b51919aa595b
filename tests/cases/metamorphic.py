"""Random problems in two forms that must have one answer: each public solver, each transformation.

``check(seed)`` draws a solver, a problem and a transformation that applies, and solves both forms:
``dcfw.minimize`` with a set of the table of sets, a method and an objective, or one of the functions of
:mod:`metamorphic_applications`.  A transformation is *exact* where every number of the one run is a power of
two times that of the other, and then results are compared bit for bit; elsewhere statuses are compared, and
values to 1e-9 of their scale (FW-M: 1e-7).  New sets, methods and transformations are included through
their tables.

Where a transformation is not exact it changes how sums are rounded, and rounding may decide between two
vertices that are equally good (an exact step along one edge of a box leaves a derivative of zero).  Then
forms may end at different points.  That does not excuse every difference: it counts as a tie
only if *one* form, by itself, changes as much when its own data are changed in their last bits
(:func:`tied`).  Ties are counted and printed.

    python tests/cases/metamorphic.py --cases 100000 --seed 0 --state counts.json

With ``--state`` a run that was stopped resumes after its last complete thousand of cases.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

import dcfw
import metamorphic_applications as applications
from dcfw import functions, sets
from dcfw.solvers.choice import METHODS
from dcfw.solvers.graduated import Graduated
from metamorphic_applications import Form, Transformation
from set_cases import CASES

CASES_IN_TESTS = 800
APPLICATIONS = 0.4
"""The share of the cases that are not of ``dcfw.minimize``."""
NUDGES = 40
"""How many times the data are changed in their last bits to see whether a tie decides."""
TIE = 1e-10
"""Changes of the data by this much decide between slopes that active sets take as equal."""
WHOLE = {"maxiter": 1000, "max_lmo": 5000}
CLOSE = 1e-9
"""How near values are, relative to their scale, where the transformation is not exact."""
MEASURED = 1e-7
"""The same for FW-M, which measures L by a difference quotient that loses half of the digits."""


SAMPLED = ("stochastic", "sfw")
SYMMETRIC = (
    sets.Simplex,
    sets.L1Ball,
    sets.L2Ball,
    sets.LInfBall,
    sets.LpBall,
    sets.KSparse,
    sets.Hypersimplex,
)
"""Sets of vectors that any order of their entries leaves as they are."""


@dataclass(frozen=True)
class Problem:
    """Minimise 1/2 x'Ax + b'x + c over a set, or 1/(2m) ||Ax - b||^2 with sampled gradients."""

    domain: Any
    A: Any
    b: np.ndarray
    c: float
    method: str
    options: dict[str, Any]
    x0: Any = None

    @property
    def sampled(self) -> bool:
        return self.method in SAMPLED

    def solve(self) -> Any:
        if self.sampled:
            phi: Any = functions.FiniteSum.least_squares(self.A, self.b)
        else:
            phi = functions.Quadratic(self.A, self.b, self.c)
        return dcfw.minimize(phi, self.domain, self.x0, rng=0, **{"method": self.method, **self.options})

    def nudged(self, rng: np.random.Generator, by: float = applications.EPS) -> Problem:
        """Return the problem with its data changed relatively by a few times ``by``."""
        return replace(self, A=applications.nudge(self.A, rng, by), b=applications.nudge(self.b, rng, by))

    def __str__(self) -> str:
        return f"{self.method} over {self.domain!r} with {self.options}"


def _times(problem: Problem, s: float) -> Form:
    root = math.sqrt(s) if problem.sampled else s
    return Form(replace(problem, A=root * problem.A, b=root * problem.b, c=s * problem.c), s)


def power_of_two(problem: Problem, rng: np.random.Generator) -> Form:
    return _times(problem, 4.0 ** int(rng.integers(-20, 21)))


def power_of_ten(problem: Problem, rng: np.random.Generator) -> Form:
    return _times(problem, 10.0 ** int(rng.integers(-12, 13)))


def constant(problem: Problem, rng: np.random.Generator) -> Form | None:
    if problem.sampled:
        return None
    offset = float(rng.standard_normal()) * 10.0 ** int(rng.integers(-3, 3))
    return Form(replace(problem, c=problem.c + offset), offset=offset)


def own_start(problem: Problem, rng: np.random.Generator) -> Form:
    return Form(replace(problem, x0=problem.domain.start()))


def layout(problem: Problem, rng: np.random.Generator) -> Form:
    return Form(replace(problem, A=np.asfortranarray(problem.A)))


def sparse(problem: Problem, rng: np.random.Generator) -> Form | None:
    return None if problem.sampled else Form(replace(problem, A=sp.csr_array(problem.A)))


def order(problem: Problem, rng: np.random.Generator) -> Form | None:
    if not isinstance(problem.domain, SYMMETRIC) or len(problem.domain.shape) != 1:
        return None
    if problem.method == "graduated" and isinstance(problem.domain, sets.LInfBall):
        return None  # the weights of its coordinates are estimated from signs that are drawn entry by entry
    p = rng.permutation(len(problem.b)) if not problem.sampled else rng.permutation(problem.A.shape[1])
    if problem.sampled:
        return Form(replace(problem, A=problem.A[:, p]), move=lambda x: x[p])
    problem = in_any_order(problem)
    return Form(replace(problem, A=problem.A[np.ix_(p, p)], b=problem.b[p]), move=lambda x: x[p])


def in_any_order(problem: Problem) -> Problem:
    """Return the problem in a form whose answer no order of the entries changes.

    Noise is drawn entry by entry, so paths go without.  Whole paths are compared: their pace depends on which
    vertex rounding prefers at the convex stage's end.  Rounds of steps on a simplex leave equal slopes behind
    and take the first entry of those, so they are compared where they end.
    """
    if problem.method == "graduated":
        return replace(problem, options={**WHOLE, "method": Graduated(perturbation=0.0)})
    if problem.method == "auto" and isinstance(problem.domain, sets.Simplex):
        return replace(problem, options={**WHOLE, "rtol": 1e-12})
    return problem


def _resized(problem: Problem, s: float) -> Form | None:
    """Return the problem over s times the set, with y = s x."""
    # The pace of a graduated path depends on which vertex rounding prefers at the convex stage's end.
    if not isinstance(problem.domain, sets.Scale) or problem.method == "graduated":
        return None
    domain = sets.Scale(problem.domain.domain, s * problem.domain.factor)
    if problem.sampled:
        return Form(replace(problem, domain=domain, A=problem.A / s), move=lambda x: s * x)
    return Form(replace(problem, domain=domain, A=problem.A / s**2, b=problem.b / s), move=lambda x: s * x)


def size_of_two(problem: Problem, rng: np.random.Generator) -> Form | None:
    return _resized(problem, 2.0 ** int(rng.integers(-20, 21)))


def size_of_ten(problem: Problem, rng: np.random.Generator) -> Form | None:
    return _resized(problem, 10.0 ** int(rng.integers(-9, 10)))


def negated(problem: Problem, rng: np.random.Generator) -> Form | None:
    return _resized(problem, -1.0)


def moved(problem: Problem, rng: np.random.Generator) -> Form | None:
    if not isinstance(problem.domain, sets.Shift) or problem.sampled:
        return None
    d = rng.standard_normal(problem.domain.shape)
    A, b, v = problem.A, problem.b, d.ravel()
    offset = problem.c - float(b @ v) + 0.5 * float(v @ A @ v)
    domain = sets.Shift(problem.domain.domain, problem.domain.by + d)
    other = replace(problem, domain=domain, b=b - A @ v, c=offset)
    return Form(other, move=lambda x: x + d)


TRANSFORMATIONS = {
    "objective times a power of two": Transformation(power_of_two, exact=True),
    "objective times a power of ten": Transformation(power_of_ten),
    "objective plus a constant": Transformation(constant),
    "the set's own start as x0": Transformation(own_start, exact=True),
    "columns of the matrix in memory": Transformation(layout),
    "sparse matrix": Transformation(sparse),
    "order of the entries": Transformation(order),
    "set times a power of two": Transformation(size_of_two, exact=True),
    "set times a power of ten": Transformation(size_of_ten),
    "set times -1": Transformation(negated, exact=True),
    "set moved": Transformation(moved),
}


def draw(seed: int) -> tuple[str, Problem, Form]:
    """Return the name of a transformation, a problem, and its other form."""
    rng = np.random.default_rng((seed, 27))
    name, method = rng.choice(list(TRANSFORMATIONS)), str(rng.choice(list(METHODS)))
    while True:
        domain = _domain(method, str(name), rng)
        problem = None if domain is None else _problem(method, domain, rng)
        form = None if problem is None else TRANSFORMATIONS[name].make(problem, rng)
        if form is not None:
            assert problem is not None
            return str(name), problem, form
        if rng.random() < 0.02:  # a transformation that does not concern this method
            name = rng.choice(list(TRANSFORMATIONS))


def _domain(method: str, name: str, rng: np.random.Generator) -> Any:
    domain = CASES[int(rng.integers(len(CASES)))].domain
    if not 1 < math.prod(domain.shape) <= 60 or (method in SAMPLED and len(domain.shape) > 1):
        return None
    if method == "graduated":
        domain = VERTICES[int(rng.integers(len(VERTICES)))]
    if method == "block":
        return sets.Product([domain, sets.Simplex(3)])
    if name.startswith("set times"):
        return sets.Scale(domain, 1.5)
    return sets.Shift(domain, rng.standard_normal(domain.shape)) if name == "set moved" else domain


VERTICES = (sets.Simplex(5), sets.L1Ball(4), sets.LInfBall(5), sets.Birkhoff(4), sets.Hypersimplex(6, 3))
"""Sets on whose vertices graduated paths are known."""


def _problem(method: str, domain: Any, rng: np.random.Generator) -> Problem:
    n = math.prod(domain.shape)
    options: dict[str, Any] = {"maxiter": int(rng.integers(1, 15)), "max_lmo": 150}
    if rng.random() < 0.3 and method in ("dcfw", "boosted", "block"):
        options["inner"] = str(rng.choice(["fw", "away", "pairwise", "blended", "descent"]))
    if method in SAMPLED:
        return Problem(domain, rng.standard_normal((20, n)), rng.standard_normal(20), 0.0, method, options)
    M = rng.standard_normal((n, n)) / math.sqrt(n)
    A = M @ M.T if rng.random() < 0.5 else M + M.T
    return Problem(domain, A, rng.standard_normal(n), float(rng.standard_normal()), method, options)


RAISED = "no answer: an exception"


class Solvable(Protocol):
    """What a case needs of a problem: an answer, and neighbours that differ in the last bits."""

    def solve(self) -> Any: ...
    def nudged(self, rng: np.random.Generator, by: float = ...) -> Solvable: ...


class Verdict(NamedTuple):
    """The outcome of a case: its transformation, what is wrong (empty: nothing), whether a tie decided."""

    name: str
    wrong: str = ""
    tie: bool = False


def check(seed: int) -> Verdict:
    """Solve both forms of the seed's problem and compare the answers."""
    if np.random.default_rng((seed, 28)).random() < APPLICATIONS:
        name, problem, form, exact = applications.draw(seed)
    else:
        name, problem, form = draw(seed)
        exact = TRANSFORMATIONS[name].exact
        if name == "order of the entries":
            problem = in_any_order(problem)
    try:
        first, second = problem.solve(), form.problem.solve()
    except (ValueError, FloatingPointError) as error:
        return Verdict(name, f"seed {seed}, {name}: {problem}: {type(error).__name__}: {error}")
    wrong = compare(first, second, form, exact)
    if wrong and not exact and tied(problem, first, second, form):
        return Verdict(name, tie=True)
    return Verdict(name, wrong and f"seed {seed}, {name}: {problem}: {wrong}")


def distance(first: Any, second: Any, form: Form) -> float:
    """Return by how much of their scale (that of phi and of its changes over the set) the values differ."""
    gaps = first.history["gap"]
    unit = abs(form.scale) * (abs(float(first.fun)) + float(gaps[0] if len(gaps) else 0.0)) + abs(form.offset)
    off = abs(float(second.fun) - form.scale * float(first.fun) - form.offset)
    return off / unit if unit > 0.0 else off


def tied(problem: Solvable, first: Any, second: Any, form: Form) -> bool:
    """Return whether the last bits of either form's data change its answer as much as the other form did.

    Active sets take slopes that agree to 1e-9 as equal and then go by the order of the atoms, which the last
    bits cannot change.  So where forms end at points that are far apart, larger changes are tried as well.
    """
    off = distance(first, second, form)
    sizes = [applications.EPS] * NUDGES + [TIE] * NUDGES * (off > 1e4 * TIE)
    for side, status in ((problem, second.status), (form.problem, first.status)):
        answer = side.solve()
        for seed, size in enumerate(sizes):
            other = side.nudged(np.random.default_rng(seed), size).solve()
            if status is not answer.status and other.status is not answer.status:
                return True
            if off > CLOSE and distance(answer, other, Form(side)) > 0.01 * off:
                return True
    return False


def compare(first: Any, second: Any, form: Form, exact: bool) -> str:
    """Return how the results differ beyond what is allowed (empty: not at all)."""
    if first.status is not second.status:
        return f"{first.status.name} and {second.status.name}"
    x, y = form.move(np.asarray(first.x)), np.asarray(second.x)
    if exact:
        if not np.array_equal(x, y):
            return f"x differs by {np.abs(x - y).max():.3g}"
        numbers = [(first.gap * abs(form.scale), second.gap), (first.fun * form.scale, second.fun)]
        same = all(a == b or (a != a and b != b) for a, b in numbers)
        return "" if same else f"gap, fun: {numbers}"
    off = distance(first, second, form)
    close = MEASURED if first.method == "fw-m" else CLOSE
    return "" if off <= close else f"fun differs by {off:.3g} of its scale"


def check_seed(seed: int) -> Verdict:
    """Return the verdict on a seed; an exception that the comparison does not expect is a failure, too."""
    try:
        return check(seed)
    except Exception as error:
        return Verdict(RAISED, f"seed {seed}: {type(error).__name__}: {error}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--state", type=Path, help="a file to go on from, and to keep the counts in")
    given = parser.parse_args()
    state: dict[str, Any] = {"seed": given.seed, "seconds": 0.0, "seen": {}, "ties": {}, "failed": []}
    if given.state and given.state.exists():
        state = json.loads(given.state.read_text())
    seen, ties, failed = Counter[str](state["seen"]), Counter[str](state["ties"]), state["failed"]
    begun, used = time.perf_counter(), time.process_time()

    def total() -> str:
        seconds = state["seconds"] + time.process_time() - used
        if given.state:
            given.state.write_text(json.dumps({**state, "seconds": seconds, "seen": seen, "ties": ties}))
        count = f"{seen.total()} cases from seed {state['seed']}, {len(failed)} failures, {ties.total()} ties"
        return f"{count}, {seconds:.0f} s of a core, {seen.total() / max(seconds, 1e-9):.1f} cases/s"

    for seed in range(state["seed"] + seen.total(), state["seed"] + given.cases):
        if time.perf_counter() - begun > given.seconds:
            break
        verdict = check_seed(seed)
        seen[verdict.name] += 1
        ties[verdict.name] += verdict.tie
        if verdict.wrong:
            failed.append(seed)
            print(verdict.wrong, flush=True)
        if seen.total() % 1000 == 0:
            print(total(), flush=True)
    exact = {name: kind.exact for name, kind in TRANSFORMATIONS.items()} | applications.exact()
    for name, count in sorted(seen.items()):
        kind = "bits" if exact.get(name) else f"to {CLOSE:g}, but for {ties[name]} decided by a tie"
        print(f"{count:7d}  {name}" + f" ({kind})" * (name != RAISED))
    print(total())
    print(f"failing seeds: {failed}")
    return min(len(failed), 1)


if __name__ == "__main__":
    sys.exit(main())
