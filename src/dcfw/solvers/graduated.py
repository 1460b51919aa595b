"""Graduated DC-FW: follow phi_theta = phi + theta r from a convex function to a concave one.

r is convex and constant on the vertices of the set (:mod:`dcfw.solvers.paths`), so phi_theta agrees with phi
on them up to that constant.  theta falls from 1 (a convex problem) to -1 (a concave one, whose minimum is at
a vertex); each stage starts where the last one ended.

* The FW gap of phi_theta at a fixed x is convex in theta: a point stationary for two thetas is stationary
  between them.  Interior ones that stay stationary are saddle points of symmetric problems: x is perturbed.
* A stationary vertex stays one, as r has its maximum over the set at every vertex: the path is over.
* phi_{-1} is concave: full steps to the oracle's vertex lower it by at least the FW gap, until one repeats.

The convex stage bounds phi from below on all vertices: phi(v) >= phi_1(x) - gap(x) - (phi_1 - phi)(v).

References: Zaslavskiy, Bach and Vert 2009 (PATH); Liu and Qiao 2014 (GNCCP); Maron and Lipman 2018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, copy_of, eps_of, like, norm
from dcfw.functions.base import Function
from dcfw.functions.dc import joined
from dcfw.result import Status
from dcfw.sets.atoms import Atom, Dense
from dcfw.solvers.loop import frank_wolfe
from dcfw.solvers.paths import Path, Stage, find
from dcfw.solvers.problem import Problem
from dcfw.solvers.run import Run, Stop

KINDS = ("auto", "spheres", "split", "both")

TIGHT = 0.05  # the convex stage ends when its FW gap is this part of the distance to the best vertex's value
QUIET = 1e-6  # a stage with an FW gap below this part of the largest one so far is skipped
CHANGE = 5.0  # x should move by CHANGE / stages of the distance to a vertex in a stage: theta's step adapts
SLOWEST = 8.0  # theta's steps are at least the longest one over this
VERTICES = 3  # random vertices that a perturbation moves towards
OVER = -2.0  # the theta of a place from which only full steps remain
GAP_OF = "phi_theta at theta = -1, which agrees with phi on the vertices"


@dataclass(frozen=True)
class Graduated:
    """Follow a path of functions that agree on the vertices, and end at one of them.

    Parameters
    ----------
    r : {"auto", "spheres", "split", "both"} or function
        What the path adds to phi.  ``"spheres"``: the quadratic that the set declares
        (:meth:`dcfw.sets.Set.spheres`); ``"split"``: f + g, for an objective f - g with f + g constant on the
        vertices; ``"both"``: one path after the other; ``"auto"``: ``"split"`` if f + g is constant on random
        vertices, else ``"spheres"``; a function: constant on the vertices, with phi + r convex and phi - r
        concave.
    stages : int
        The resolution: theta falls by at most 2/stages, and by less where x changes quickly.
    steps : int
        The most Frank-Wolfe steps per stage.
    perturbation : float
        The part of the way to a random vertex by which x is moved after the convex stage, to break the
        symmetries of phi.  Restarts enter the path at a random theta in (0, 1), moved by 1 - theta.
    polish : callable, optional
        Your own local search: ``polish(x)`` is given the vertex at the end of a path and returns a vertex,
        which replaces it if phi is lower there.

    The largest cut of a cycle of five nodes, by signs of the nodes:

    >>> import numpy as np, dcfw
    >>> from dcfw import functions, sets
    >>> W = np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)
    >>> res = dcfw.minimize(functions.Quadratic(W), sets.LInfBall(5), method="graduated")
    >>> cut = 0.5 * (5 - res.fun)
    >>> cut, np.unique(res.x), res.lower_bound <= res.fun
    (4.0, array([-1.,  1.]), True)
    """

    r: Any = "auto"
    stages: int = 100
    steps: int = 6
    perturbation: float = 0.1
    polish: Any = None
    name = "graduated"
    needs_split = False

    def __post_init__(self) -> None:
        if isinstance(self.r, str):
            _validate.choice(self.r, "r", KINDS)
        elif not callable(getattr(self.r, "value", None)):
            raise TypeError(f"r must be one of {', '.join(KINDS)} or a function, got {type(self.r).__name__}")
        _validate.integer(self.stages, "stages", low=1)
        _validate.integer(self.steps, "steps", low=1)
        _validate.scalar(self.perturbation, "perturbation", low=0.0, high=1.0)
        if self.polish is not None:
            _validate.function(self.polish, "polish")

    def solve(self, problem: Problem, run: Run) -> None:
        Restarted(self).solve(problem, run)


class Place(NamedTuple):
    """x with the gradient of F there, and the schedule.

    ``step`` is the last decrease of theta, ``scale`` the largest FW gap of a stage so far, ``radius`` the
    distance from the convex stage's x to a vertex, ``which`` the number of the path.
    """

    x: Array
    grad: Array
    theta: float = 1.0
    step: float = 0.0
    scale: float = 0.0
    radius: float = 0.0
    which: int = 0


class Restarted:
    """Graduated DC-FW with the data that its runs share: the paths and the ends of the convex stages."""

    name = "graduated"
    needs_split = False

    def __init__(self, method: Graduated) -> None:
        self.method = method
        self._paths: list[Path] = []
        self._convex: dict[int, tuple[Place, float]] = {}  # with the lower bounds, by path

    def solve(self, problem: Problem, run: Run) -> None:
        run.vertices_only = True
        run.ledger.extra.update(gap_of=GAP_OF, lower_bound=-math.inf, theta_history=[])
        # The first run is deterministic.
        rng = problem.rng if self._convex else np.random.default_rng(0)
        run.keep(perturbations=rng)
        if not self._paths:
            phi, x = problem.phi, problem.x0
            S, gap = run.lmo(run.grad_f(phi, x), x)
            vertex = S.dense()  # so that every run has a vertex to return
            run.visit(vertex, run.value(phi, vertex), gap, certain=False)
            self._paths = find(phi, problem.domain, x, self.method.r, run)
        run.ledger.extra["split"] = "graduated, r = " + " and ".join(path.name for path in self._paths)
        run.ledger.extra["conditional"] = joined(*(path.conditional for path in self._paths))
        followers = [Follower(self.method, path, problem, run, rng) for path in self._paths]
        run.know(**{f"phi_1 of path {i}": follower.phi_1 for i, follower in enumerate(followers)})
        place = self._start(followers, problem, run, 0)
        while True:
            place = Place(*run.outer_step(tuple(place)))
            which = place.which
            follower = followers[which]
            if place.theta == 1.0:
                place = follower.convex_stage(place)
                self._convex[which] = place, run.ledger.extra["lower_bound"]
                place = follower.jump(place, follower.phi_1, self.method.perturbation, follower.longest)
            elif place.theta >= -1.0:
                place = follower.stage(place)
            else:
                follower.descend(place)
                if which + 1 == len(followers):
                    raise Stop(Status.CONVERGED, f"The gap is that of {GAP_OF}.")
                place = self._start(followers, problem, run, which + 1)

    def _start(self, followers: list[Follower], problem: Problem, run: Run, which: int) -> Place:
        """Return the start of a path, after the convex stage if an earlier run has completed it."""
        follower = followers[which]
        if which not in self._convex:
            return Place(problem.x0, run.grad_f(follower.phi_1, problem.x0), which=which)
        place, bound = self._convex[which]
        run.ledger.extra["lower_bound"] = max(run.ledger.extra["lower_bound"], bound)
        share = float(follower.rng.uniform())  # theta is the lower the farther x is from the convex stage's
        return follower.jump(place, follower.phi_1, share, max(share, follower.longest))


class Follower:
    """One run on one path: F is phi_theta for plain steps, phi_1 for an active set, as in DC-FW."""

    def __init__(
        self, method: Graduated, path: Path, problem: Problem, run: Run, rng: np.random.Generator
    ) -> None:
        self.method, self.path, self.problem, self.run, self.rng = method, path, problem, run, rng
        self.plain = problem.inner is frank_wolfe
        self.phi_1 = path.stage(1.0, self._found, run)
        self.longest = 2.0 / method.stages
        # No phi_theta has more curvature than phi_1, so its step rule suits all.
        self.step = problem.rule.bind(self.phi_1, problem.domain)
        run.keep(step=self.step)

    @property
    def best(self) -> Any:
        return self.run.ledger.best

    def convex_stage(self, place: Place) -> Place:
        run, phi_1, path, extra = self.run, self.phi_1, self.path, self.run.ledger.extra
        value = run.value(phi_1, place.x)
        limit = min(run.max_inner, self.method.stages * self.method.steps // 5 + 1)
        for X in self._loop(phi_1, place, 0.0 * place.x, limit):
            here = value - X.decrease()
            size = abs(here) + abs(path.offset) + norm(X.grad) * norm(X.x)  # terms of the value may cancel
            rounding = path.spread + 64.0 * eps_of(self.problem.x0) * size
            extra["lower_bound"] = max(extra["lower_bound"], here - X.gap - path.offset - rounding)
            if X.k == 1:
                self._visit(X)
            if X.gap <= max(TIGHT * (self.best.fun - (here - path.offset)), QUIET * place.scale):
                break
            place = place._replace(scale=max(place.scale, X.gap))
        return place._replace(x=X.x, grad=X.grad, radius=norm(X.S.dense() - X.x))

    def stage(self, place: Place) -> Place:
        if self.plain:
            F, u = self.path.stage(place.theta, self._found, self.run), 0.0 * place.x
        else:
            F, u = self.phi_1, -self.path.change(1.0, place.theta, place.x, self.run)
        for X in self._loop(F, place, u, self.method.steps):
            if X.k == 1:
                self._visit(X)
            quiet = X.gap <= QUIET * place.scale
            if quiet:
                break
            place = place._replace(scale=max(place.scale, X.gap))
        self.run.end_outer_step()
        self.run.ledger.extra["theta_history"].append(place.theta)
        after = place._replace(x=X.x, grad=X.grad)
        same = quiet and norm(X.S.dense() - X.x) <= 8.0 * eps_of(X.x) * norm(X.x)
        if place.theta <= -1.0 or same:
            return after._replace(theta=OVER, step=place.theta - OVER)
        if quiet and X.k == 1:
            return self.jump(after, F, self.method.perturbation, self.longest)
        moved = norm(X.x - place.x) / (place.radius or self.problem.domain.scale or 1.0)
        factor = CHANGE / self.method.stages / max(moved, 1e-12)
        step = place.step * min(max(factor, 0.5), 2.0)
        return self._lower(after, min(max(step, self.longest / SLOWEST), self.longest))

    def jump(self, place: Place, F: Function, share: float, step: float) -> Place:
        """Move x by ``share`` towards a mean of random vertices, and lower theta; grad is that of F."""
        run, x = self.run, place.x
        if share:
            y = (1.0 - share) * x
            for weight in share * self.rng.dirichlet(np.ones(VERTICES)):
                S, _ = run.lmo(like(self.rng.standard_normal(tuple(x.shape)), x), x)
                y = S.plus(y, float(weight))
            place = place._replace(x=y, grad=run.grad_f(F, y))
        return self._lower(place, step)

    def descend(self, place: Place) -> None:
        """Take full steps on phi_{-1} from x and from the best vertex until a vertex repeats."""
        run = self.run
        concave = self.path.stage(-1.0, self._found, run)
        theta = place.theta + place.step if self.plain else 1.0
        grad = place.grad + self.path.change(theta, -1.0, place.x, run)
        x, fun, gap = self._full_steps(concave, place.x, grad, math.inf)
        self._polish(x, fun)
        while self.best.fun < fun:
            fun, x, _ = self.best
            x, fun, gap = self._full_steps(concave, x, run.grad_f(concave, x), fun)
            self._polish(x, fun)
        run.ledger.accept(x, fun, gap)
        if gap > run.threshold:
            raise Stop(
                Status.NO_PROGRESS,
                f"A full step does not lower phi at an FW gap of {gap:.3g}, so phi_theta is not concave at "
                "theta = -1: x is the best vertex found.",
            )

    def _polish(self, x: Array, fun: float) -> None:
        if self.method.polish is not None:
            y = self.run.checked(self.method.polish(copy_of(x)), "polish")
            value = self.run.value(self.problem.phi, y)
            if value < fun:
                if not self.problem.domain.contains(y):
                    raise Stop(Status.BAD_ORACLE, "polish returned a point outside the set.")
                self._found(value, Dense(y))

    def _full_steps(self, concave: Stage, x: Array, grad: Array, fun: float) -> tuple[Array, float, float]:
        run = self.run
        while True:
            S, gap = run.lmo(grad, x)
            s = S.dense()
            if fun < math.inf and (norm(s - x) == 0.0 or gap <= 64.0 * eps_of(x) * norm(grad) * norm(x)):
                gap = 0.0
            self._visit_best(gap)
            if fun < math.inf and gap <= run.threshold:
                return x, fun, gap
            slope = run.grad_f_at(concave, S)
            value = concave.latest if concave.latest is not None else self._value(S)
            if not value < fun:
                return x, fun, gap
            x, grad, fun = s, slope, value
            run.ledger.count_step(outer=False)
            run.end_outer_step()

    def _loop(self, F: Function, place: Place, u: Array, steps: int) -> Any:
        return self.problem.inner(
            self.run, F, place.x, place.grad, self.step, linear=u, convex=not self.plain, max_steps=steps
        )

    def _lower(self, place: Place, step: float) -> Place:
        theta, grad = max(place.theta - step, -1.0), place.grad
        if self.plain:
            grad = grad + self.path.change(place.theta, theta, place.x, self.run)
        return place._replace(grad=grad, theta=theta, step=place.theta - theta)

    def _visit(self, X: Any) -> None:
        """Record the start of a stage; compute phi at its vertex unless gradients determine it."""
        if self.best is None or not self.phi_1.affine_grad:
            self._value(X.S)
        self._visit_best(X.gap)

    def _visit_best(self, gap: float) -> None:
        self.run.visit(self.best.x, self.best.fun, gap, certain=False)

    def _value(self, S: Atom) -> float:
        value = self.run.value(self.problem.phi, S.dense())
        self._found(value, S)
        return value

    def _found(self, value: float, S: Atom) -> None:
        if self.best is None or value < self.best.fun:
            self.run.ledger.accept(S.dense(), value, math.nan)
