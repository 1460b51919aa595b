"""An active set stands for its point whatever is done to it, and its stacks do what its atoms do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import dcfw
from dcfw import functions, sets
from dcfw.functions import quadratic as quadratics
from dcfw.sets.atoms import Dense, OneHot
from dcfw.sets.stacks import DenseStack, stack_for
from dcfw.solvers import active_set
from dcfw.solvers.active_set import ActiveSet
from dcfw.solvers.weights import pairwise_steps
from set_cases import every_set

DOMAINS = {
    "one-hot": sets.L1Ball(6, radius=2.0),
    "entries": sets.KSparse((2, 3), k=2, radius=3.0),
    "signs": sets.LInfBall(6, radius=0.5),
    "permutation": sets.Birkhoff(4),
    "rank-one": sets.NuclearBall((2, 3)),
    "dense": sets.Box(-1.0, 2.0, shape=6),
}


def quadratic(domain, rng):
    """Return a strongly convex quadratic with a linear term, and its Hessian."""
    n = int(np.prod(domain.shape))
    R = rng.standard_normal((n, n))
    H = R @ R.T + np.eye(n)
    return functions.Quadratic(H, rng.standard_normal(n), convex=True), H


class Steps(RuleBasedStateMachine):
    """Random sequences of what a solver does with an active set, compared with a list of dense atoms."""

    @initialize(
        seed=st.integers(0, 10**6),
        kind=st.sampled_from(sorted(DOMAINS)),
        cap=st.integers(4, 12),
        images=st.booleans(),
    )
    def start(self, seed, kind, cap, images):
        self.rng = np.random.default_rng(seed)
        self.domain = DOMAINS[kind]
        self.oracle = self.domain.oracle()
        self.x = self.domain.random(self.rng)
        self.active = ActiveSet(self.x, cap=cap)
        self.f, self.H = quadratic(self.domain, self.rng)
        if images:
            self.active.attach(self.f, lambda atom, scores: self.f.grad_at(atom))

    @rule()
    def meet_a_vertex(self):
        S = self.oracle(self.rng.standard_normal(self.domain.shape))
        place = self.active.find(S)
        if place is None:
            place = self.active.add(S, None if self.active.f is None else self.f.grad_at(S))
            assert self.active.weights[place] == 0.0
        np.testing.assert_allclose(self.active.atoms[place].dense(), S.dense(), atol=1e-12)

    @rule(kind=st.sampled_from(["towards", "away", "pairwise"]), eta=st.sampled_from([1e-9, 0.3, 0.99, 1.0]))
    def step(self, kind, eta):
        w = self.active.weights
        to = int(self.rng.integers(len(w)))
        worst = int(self.rng.choice(np.flatnonzero(w)))
        heavy = float(w[worst])
        if kind == "towards":
            coefficients = (-1.0, 1.0, 0.0)
        elif kind == "away" and heavy < 0.5:
            scale = heavy / (1.0 - heavy)
            coefficients = (scale, 0.0, -scale)
        else:
            coefficients = (0.0, heavy, -heavy)
        alpha, beta, gamma = coefficients
        if beta and to == worst:
            return
        atoms = self.active.atoms
        d = alpha * self.x + beta * atoms[to].dense() + gamma * atoms[worst].dense()
        self.x = self.x + eta * d
        self.active.move(coefficients, to, worst, eta)
        if eta == 1.0 and gamma:
            assert self.active.weights[worst] == 0.0

    @precondition(lambda self: self.active.f is not None)
    @rule()
    def optimise_weights(self):
        active, linear = self.active, self.rng.standard_normal(self.domain.shape)
        grad = self.f.grad(self.x)
        before, scores = active.weights.copy(), active.scores(grad - linear)
        value = self.f.value(self.x) - np.vdot(linear, self.x)
        _, gained, convex = pairwise_steps(
            active.M, active.weights, scores, len(active), 1e-9, 200, 2.0 * active.noise
        )
        assert convex
        change = active.weights - before
        self.x = active.combine(self.x, change)
        grad = active.combine_images(grad, change)
        scale = 1.0 + abs(value)
        np.testing.assert_allclose(grad, self.f.grad(self.x), atol=1e-9 * scale)
        np.testing.assert_allclose(scores, active.scores(grad - linear), atol=1e-9 * scale)
        assert value - (self.f.value(self.x) - np.vdot(linear, self.x)) == pytest.approx(
            gained, abs=1e-9 * scale
        )

    @rule()
    def make_room(self):
        self.active._make_room()

    @rule()
    def have_another_function(self):
        if self.active.f is not None:
            self.f, self.H = quadratic(self.domain, self.rng)
            self.active.attach(self.f, lambda atom, scores: self.f.grad_at(atom))

    @rule()
    def go_on_with_a_copy(self):
        attached = self.active.f is not None
        self.active = self.active.copy()
        assert (self.active.weights > 0.0).all()
        if attached:
            self.active.attach(self.f, lambda atom, scores: self.f.grad_at(atom))

    @invariant()
    def weights_are_on_the_simplex(self):
        w = self.active.weights
        assert (w >= 0.0).all()
        assert w.sum() == pytest.approx(1.0, abs=1e-12)

    @invariant()
    def the_point_is_the_combination_of_the_atoms_and_feasible(self):
        np.testing.assert_allclose(self.active.point(), self.x, atol=1e-11)
        dense = sum(w * a.dense() for w, a in zip(self.active.weights, self.active.atoms, strict=True))
        np.testing.assert_allclose(self.active.point(), dense, atol=1e-12)
        assert self.domain.contains(self.active.point())

    @invariant()
    def the_cap_is_respected(self):
        assert len(self.active) <= self.active.cap

    @invariant()
    def vertices_are_found_where_they_are_and_are_there_once(self):
        keys = [a.key for a in self.active.atoms if not isinstance(a, Dense)]
        assert len(set(keys)) == len(keys)
        for place, atom in enumerate(self.active.atoms):
            if not isinstance(atom, Dense):
                assert self.active.find(atom) == place

    @invariant()
    def scores_are_products_with_the_atoms(self):
        G = self.rng.standard_normal(self.domain.shape)
        expected = [float(np.vdot(G, a.dense())) for a in self.active.atoms]
        np.testing.assert_allclose(self.active.scores(G), expected, atol=1e-11)

    @invariant()
    def images_are_gradients_and_the_gram_matrix_is_that_of_the_hessian(self):
        active = self.active
        if active.f is None:
            return
        atoms = np.array([a.dense().ravel() for a in active.atoms])
        for place, atom in enumerate(active.atoms):
            np.testing.assert_allclose(active.image(place), self.f.grad(atom.dense()), atol=1e-9)
        M = active.M[: len(active), : len(active)]
        gram = atoms @ self.H @ atoms.T
        # Up to one constant.
        np.testing.assert_allclose(M - M[0, 0], gram - gram[0, 0], atol=1e-8)


TestSteps = Steps.TestCase
TestSteps.settings = settings(max_examples=40, stateful_step_count=25)


def test_a_full_set_drops_what_has_no_weight_and_merges_the_lightest_into_their_mean():
    active = ActiveSet(np.full(20, 0.05), cap=8)
    for j in range(7):
        active.add(OneHot(j, 1.0, (20,)))
    active.weights[:] = [0.0, 0.01, 0.02, 0.07, 0.2, 0.2, 0.25, 0.25]
    x = active.point()
    active.add(OneHot(10, 1.0, (20,)))
    # Seven atoms have weight, more than three quarters of the cap: the heaviest three stay.
    assert len(active) == 5
    kept = [a.index for a in active.atoms if isinstance(a, OneHot)]
    assert kept == [4, 5, 6, 10]
    assert active.weights.tolist() == pytest.approx([0.2, 0.25, 0.25, 0.3, 0.0])
    np.testing.assert_allclose(active.point(), x, atol=1e-15)
    assert active.find(OneHot(0, 1.0, (20,))) is None


def test_a_set_with_idle_atoms_only_loses_those():
    active = ActiveSet(np.full(40, 0.025), cap=40)
    for j in range(31):
        active.add(OneHot(j, 1.0, (40,)))
    active.weights[5] = active.weights[0] = 0.5
    active.add(OneHot(39, 1.0, (40,)))
    assert len(active) == 3
    assert active.weights.tolist() == [0.5, 0.5, 0.0]


def test_a_known_vertex_is_looked_up_and_not_searched_for():
    class Watched(OneHot):
        asked = 0

        @property
        def key(self):
            type(self).asked += 1
            return super().key

    active = ActiveSet(np.full(500, 0.002), cap=1000)
    for j in range(400):
        active.add(Watched(j, 1.0, (500,)))
        active.weights[:] = 1.0 / len(active)  # all of them in use, so that none is dropped
    Watched.asked = 0
    assert active.find(Watched(399, 1.0, (500,))) == 400
    assert Watched.asked == 1


@every_set
def test_a_stack_does_what_its_atoms_do_one_by_one(case):
    rng = np.random.default_rng(0)
    oracle = case.domain.oracle()
    found = [oracle(rng.standard_normal(case.domain.shape)) for _ in range(60)]
    atoms = [atom for atom in found if type(atom) is type(found[0])][:11]
    stack = stack_for(atoms[0])
    stack.extend(atoms[:1])
    stack.extend(atoms[1:])
    for kept in (list(range(11)), [0, 3, 4, 10], [2]):
        stack.keep(np.array(kept))
        atoms = [atoms[j] for j in kept]
        G, x = rng.standard_normal(case.domain.shape), rng.standard_normal(case.domain.shape)
        c = rng.standard_normal(len(kept))
        c[0] = 0.0
        scale = max(1.0, case.domain.scale) * 100.0
        np.testing.assert_allclose(stack.inner(G), [a.inner(G) for a in atoms], atol=1e-13 * scale)
        np.testing.assert_allclose(stack.inner_all([G, x])[0], stack.inner(G), atol=1e-13 * scale)
        before = x.copy()
        expected = x + sum(ci * a.dense() for ci, a in zip(c, atoms, strict=True))
        np.testing.assert_allclose(stack.add(x, c), expected, atol=1e-13 * scale)
        np.testing.assert_array_equal(x, before)
        if len(kept) == 11:
            fortran = np.asfortranarray(G)
            np.testing.assert_allclose(stack.inner(fortran), stack.inner(G), atol=1e-13 * scale)


def test_a_stack_of_signs_gives_the_same_in_blocks(monkeypatch):
    monkeypatch.setattr("dcfw.sets.stacks.BLOCK", 12)  # two atoms of six entries
    rng, oracle = np.random.default_rng(0), sets.LInfBall(6, radius=0.5).oracle()
    atoms = [oracle(rng.standard_normal(6)) for _ in range(7)]
    stack = stack_for(atoms[0])
    stack.extend(atoms)
    G, x, c = rng.standard_normal(6), rng.standard_normal(6), rng.standard_normal(7)
    np.testing.assert_allclose(stack.inner(G), [a.inner(G) for a in atoms], atol=1e-14)
    expected = x + sum(ci * a.dense() for ci, a in zip(c, atoms, strict=True))
    np.testing.assert_allclose(stack.add(x, c), expected, atol=1e-14)


@pytest.mark.parametrize("kind", sorted(DOMAINS))
def test_a_stack_keeps_single_precision(kind):
    domain, rng = DOMAINS[kind], np.random.default_rng(1)
    G = rng.standard_normal(domain.shape).astype(np.float32)
    stack = stack_for(domain.oracle()(G))
    stack.extend([domain.oracle()(G)])
    assert stack.add(G, np.array([0.5])).dtype == np.float32
    assert stack.inner(G)[0] == pytest.approx(float(np.vdot(G, domain.lmo(G))), rel=1e-5)


def test_other_backends_are_kept_as_lists():
    torch = pytest.importorskip("torch")
    active = ActiveSet(torch.full((3,), 1.0 / 3.0))
    active.add(Dense(torch.tensor([1.0, 0.0, 0.0])))
    active.weights[:] = 0.5
    assert all(isinstance(stack, DenseStack) for stack, _ in active._stacks.values())
    assert isinstance(active.point(), torch.Tensor)
    assert active.scores(torch.tensor([3.0, 0.0, 0.0])).tolist() == pytest.approx([1.0, 3.0])


def test_the_default_cap_bounds_the_memory_of_large_points():
    assert ActiveSet(np.zeros(10)).cap == 1000
    assert ActiveSet(np.zeros(2**18)).cap == 128
    assert ActiveSet(np.zeros(2**22)).cap == 32


@given(seed=st.integers(0, 10**6), m=st.integers(2, 12), aim=st.sampled_from([1e-2, 1e-6]))
def test_pairwise_steps_end_at_the_aim_and_gain_what_they_say(seed, m, aim):
    rng = np.random.default_rng(seed)
    R = rng.standard_normal((m, m))
    M, b = R @ R.T, rng.standard_normal(m)
    w = rng.dirichlet(np.ones(m))
    before = w.copy()
    scores = M @ w + b
    count, gained, convex = pairwise_steps(M + 3.7, w, scores, m, aim, 100_000, 1e-9)
    assert convex
    assert (w >= 0.0).all()
    assert w.sum() == pytest.approx(1.0, abs=1e-11)
    np.testing.assert_allclose(scores, M @ w + b, atol=1e-8)

    def value(v):
        return 0.5 * v @ M @ v + b @ v

    assert gained == pytest.approx(value(before) - value(w), abs=1e-9)
    if count < 100_000:
        assert scores[w > 0.0].max() - scores.min() <= aim


def test_pairwise_steps_refuse_negative_curvature_and_survive_nan():
    M = np.array([[0.0, 0.0], [0.0, -1.0]])
    w = np.array([1.0, 0.0])
    count, _, convex = pairwise_steps(M, w, np.array([1.0, 0.0]), 2, 1e-9, 10, 1e-9)
    assert (count, convex) == (0, False)
    count, gained, convex = pairwise_steps(M, w, np.array([np.nan, 0.0]), 2, 1e-9, 10, 1e-9)
    assert (count, gained, convex) == (0, 0.0, True)
    assert w.tolist() == [1.0, 0.0]


def test_a_multiple_of_the_square_is_added_without_asking_for_gradients_again():
    domain, rng = sets.L1Ball(6, radius=2.0), np.random.default_rng(0)
    (f, _), more = quadratic(domain, rng), functions.SquaredNorm(0.5)
    active = ActiveSet(np.zeros(6), cap=8)
    for _ in range(3):
        active.add(domain.oracle()(rng.standard_normal(6)))
    active.attach(f, lambda atom, scores: f.grad(atom.dense()))
    both = f + more
    active.add_square(both, 0.5)
    active.attach(both, lambda *_: pytest.fail("asked for a gradient that follows from what is known"))
    for place, atom in enumerate(active.atoms):
        np.testing.assert_allclose(active.image(place), both.grad(atom.dense()))


LONG = [sets.Simplex(40, radius=3.0), sets.L1Ball(40, radius=3.0), sets.KSparse(40, k=4)]


@pytest.mark.parametrize("domain", [*LONG, sets.LInfBall(40, radius=0.2)], ids=repr)
@pytest.mark.parametrize("inner", ["blended", "away", "pairwise"])
def test_scores_in_place_of_gradients_give_the_same_solution(domain, inner, monkeypatch):
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((15, 40)), rng.standard_normal(15)
    plain = dcfw.minimize(functions.LeastSquares(A, b), domain, inner=inner, rtol=1e-8)
    monkeypatch.setattr(quadratics, "LONG", 0)
    short = dcfw.minimize(functions.LeastSquares(A, b), domain, inner=inner, rtol=1e-8)
    assert short.success
    assert short.fun == pytest.approx(plain.fun, rel=1e-7)
    assert abs(short.n_grad_f - plain.n_grad_f) <= 0.2 * plain.n_grad_f + 5


@pytest.mark.parametrize("domain", LONG, ids=repr)
def test_images_that_are_scores_stand_for_the_gradients_at_the_atoms(domain, monkeypatch):
    monkeypatch.setattr(quadratics, "LONG", 0)
    rng = np.random.default_rng(1)
    f = functions.LeastSquares(rng.standard_normal((15, 40)), rng.standard_normal(15))
    active, asked = ActiveSet(domain.start(), cap=8), []

    def image(atom, scores):
        asked.append(scores)
        return f.scores_at(atom) if scores else f.grad_at(atom)

    active.attach(f, image)
    for _ in range(12):  # some are merged on the way
        S = domain.oracle()(rng.standard_normal(40))
        if active.find(S) is None:
            active.enter([S], image)
            active.move((-1.0, 1.0, 0.0), len(active) - 1, 0, 0.3)
    assert all(asked)
    assert len(active) <= 8
    H = f.A.T @ f.A
    for place, atom in enumerate(active.atoms):
        np.testing.assert_allclose(active.image(place), f.grad(atom.dense()), atol=1e-9)
        products = [other.dense() @ H @ atom.dense() for other in active.atoms]
        np.testing.assert_allclose(active.M[place, : len(active)], products, atol=1e-9)
    np.testing.assert_allclose(
        active.combine_images(f.grad(domain.start()), active.weights - np.eye(len(active))[0]),
        f.grad(active.point()) - f.grad(active.atoms[0].dense()) + f.grad(domain.start()),
        atol=1e-9,
    )


def test_a_run_with_scores_is_resumed_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(quadratics, "LONG", 0)
    rng = np.random.default_rng(2)
    A, b = rng.standard_normal((15, 40)), rng.standard_normal(15)
    phi, domain = functions.LeastSquares(A, b) - 0.1 * functions.L2Norm(), sets.KSparse(40, k=4)
    whole = dcfw.minimize(phi, domain, method="dcfw")
    part = dcfw.minimize(phi, domain, method="dcfw", checkpoint=tmp_path / "run.npz", maxiter=2)
    assert part.nit == 2 < whole.nit
    resumed = dcfw.minimize(phi, domain, method="dcfw", checkpoint=tmp_path / "run.npz")
    assert np.array_equal(resumed.x, whole.x)
    assert resumed.n_lmo == whole.n_lmo


def test_sparse_atoms_and_scores_need_no_smaller_active_set(monkeypatch):
    monkeypatch.setattr(quadratics, "LONG", 0)
    monkeypatch.setattr(active_set, "MEMORY", 0)
    rng = np.random.default_rng(3)
    f = functions.LeastSquares(rng.standard_normal((15, 40)), rng.standard_normal(15))
    for domain, cap in ((LONG[1], active_set.CAP), (sets.LInfBall(40), 32)):
        res = dcfw.minimize(f, domain, inner="blended")
        assert res.active_set.cap == cap


def test_a_sparse_vertex_keeps_no_long_array_alive():
    for domain in (sets.KSparse(1000, k=3), sets.Hypersimplex(1000, k=3)):
        atom = domain.oracle()(np.random.default_rng(0).standard_normal(1000))
        assert all(array.base is None for array in atom.support())
