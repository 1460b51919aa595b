"""The active set: the vertices that make up a point, with their weights, gradients and inner products."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import Array, copy_of, eps_of, like, norm, to_numpy
from dcfw.functions.base import Function
from dcfw.sets.atoms import Atom, Dense, Entries, OneHot, recast
from dcfw.sets.given import as_set
from dcfw.sets.stacks import DenseStack, Rows, Stack, kind_of, stack_for

CAP = 1000  # the most atoms kept, unless fewer fill the memory
MEMORY = 256 * 2**20  # bytes for the atoms' gradients


class ActiveSet:
    """Atoms and weights: X = sum_j weights[j] atoms[j], weights nonnegative with sum one.

    Atoms whose weight has fallen to zero remain as candidates for cheap steps until there are twice as many
    atoms as had weight the last time; then they are dropped.  If more than three quarters of ``cap`` have
    weight, the lightest are merged into one dense atom, their mean, so that half of that number remains.
    Neither changes X.  The default ``cap`` is 1000, or what 256 MiB hold as dense arrays, but at least 32.

    For a quadratic f with Hessian H the set stores an image grad f(a_j) of each atom and the matrix
    M_ij = <H a_i, a_j> up to one constant.  H is symmetric, so a new atom's row needs only its own image.
    Where H = A'A and A has few rows, the image is A a_j, and sparse atoms then need no smaller ``cap``.

    >>> import numpy as np
    >>> from dcfw.sets.atoms import OneHot
    >>> active = ActiveSet(np.array([0.5, 0.5]))
    >>> place = active.add(OneHot(0, 1.0, (2,)))
    >>> active.weights[:] = 0.5
    >>> active.point(), active.find(OneHot(0, 1.0, (2,))) == place
    (array([0.75, 0.25]), True)
    """

    def __init__(self, x: Array, cap: int | None = None) -> None:
        self.cap = _validate.integer(_usual_cap(x) if cap is None else cap, "cap", low=4)
        self.atoms: list[Atom] = []
        self.f: Any = None  # the function whose gradients the images are
        self.M = np.zeros((0, 0))
        self._noise, self._heard = 0.0, 0
        self._zero = 0.0 * x
        self._weights = np.zeros(8)
        self._places: dict[Any, int] = {}
        self._stacks: dict[Hashable, tuple[Stack, Rows]] = {}
        self._images = DenseStack()
        self._twists = np.zeros(0)
        self._short = False  # whether images are scores, stored with the gradient at zero
        self._slope: Array | None = None
        self._room = min(32, self.cap)
        self._extend([Dense(copy_of(x))])  # the caller may overwrite x
        self._places[self.atoms[0].key] = 0
        self._weights[0] = 1.0

    def __len__(self) -> int:
        return len(self.atoms)

    @property
    def noise(self) -> float:
        """Bound on the rounding error of a curvature."""
        for place in range(self._heard, len(self._images.arrays)):
            image = self._images.arrays[place]
            other = image if self._short else self.atoms[place].dense()
            self._noise = max(self._noise, 64.0 * eps_of(image) * norm(image) * norm(other))
        self._heard = len(self._images.arrays)
        return self._noise

    @noise.setter
    def noise(self, bound: float) -> None:
        self._noise, self._heard = bound, len(self._images.arrays)

    @property
    def weights(self) -> np.ndarray:
        return self._weights[: len(self.atoms)]

    def find(self, atom: Atom) -> int | None:
        return self._places.get(atom.key)

    def add(self, atom: Atom, image: Array | None = None) -> int:
        """Add a new vertex with weight zero and return its place; the places of others may change."""
        self.add_all([atom], None if image is None else [image])
        return len(self) - 1

    def enter(self, atoms: list[Atom], image: Callable[[Atom, bool], Array]) -> None:
        """Add new vertices with their images, ``image(atom, whether as scores)``."""
        if self._short and isinstance(atoms[0], OneHot | Entries) and self.cap == _usual_cap(self._zero):
            self.cap = CAP  # neither atoms nor images are long
        self.add_all(atoms, None if self.f is None else [image(atom, self._short) for atom in atoms])

    def add_all(self, atoms: list[Atom], images: list[Array] | None = None) -> None:
        if len(self) + len(atoms) > self._room:
            self._make_room(len(atoms))
        self._places.update((atom.key, len(self) + k) for k, atom in enumerate(atoms))
        self._extend(atoms)
        if images is not None:
            self._append_images(images)

    def attach(self, f: Function, image: Callable[[Atom, bool], Array]) -> None:
        """Compute the images of f, ``image(atom, whether as scores)``, unless they are known."""
        if f is not self.f:
            self.f, self._images, self._slope = f, DenseStack(), None
            self._short = isinstance(self._zero, np.ndarray) and f.has_scores()
            self.noise = 0.0
            self._append_images([image(atom, self._short) for atom in self.atoms])

    def image(self, place: int) -> Array:
        if not self._short:
            return self._images.arrays[place]
        if self._slope is None:
            self._slope = self.f.grad(self._zero)
        return self._slope + self._pulled(self._images.arrays[place])

    def _pulled(self, scores: np.ndarray) -> Array:
        return self.f.from_scores(scores).reshape(self._zero.shape)

    def scores(self, G: Array) -> np.ndarray:
        found = np.empty(len(self))
        for stack, places in self._stacks.values():
            found[places.array[:, 0]] = stack.inner(G)
        return found

    def combine(self, x: Array, c: np.ndarray) -> Array:
        for stack, places in self._stacks.values():
            x = stack.add(x, c[places.array[:, 0]])
        return x

    def combine_images(self, grad: Array, c: np.ndarray) -> Array:
        if self._short:
            return grad + self._pulled(self._images.add(0.0 * self._images.arrays[0], c))
        return self._images.add(grad, c)

    def point(self) -> Array:
        """Return X, computed from the weights."""
        return self.combine(self._zero, self.weights)

    def move(self, coefficients: tuple[float, float, float], to: int, worst: int, eta: float) -> None:
        """Update the weights for a step of length eta along alpha X + beta a_to + gamma a_worst."""
        alpha, beta, gamma = coefficients
        w = self.weights
        w *= 1.0 + eta * alpha
        w[to] += eta * beta
        if gamma:
            w[worst] = 0.0 if eta == 1.0 else max(w[worst] + eta * gamma, 0.0)

    def normalise(self) -> None:
        self.weights[:] /= self.weights.sum()

    def copy(self) -> ActiveSet:
        """Return the atoms with weight, without images."""
        used = np.flatnonzero(self.weights)
        return ActiveSet.of([self.atoms[j] for j in used], self.weights[used], self._zero, self.cap)

    @classmethod
    def of(cls, atoms: list[Atom], weights: np.ndarray, zero: Array, cap: int | None = None) -> ActiveSet:
        active = cls(zero, cap)
        active.restart(atoms, weights)
        active.normalise()
        return active

    def recast(self, x: Array, domain: Any = None) -> ActiveSet | None:
        """Return a copy in the precision of x, None if an atom would leave the set."""
        if not isinstance(x, np.ndarray):
            return None
        other = self.copy()
        rounding = max(eps_of(self._zero), eps_of(x))
        atoms = [_within(recast(atom, x), domain, rounding) for atom in other.atoms]
        if any(atom is None for atom in atoms):
            return None
        other._zero = 0.0 * x
        other.restart(atoms, other.weights.copy())  # type: ignore[arg-type]
        return other

    def change_since(self, atoms: list[Atom], weights: np.ndarray) -> np.ndarray | None:
        """Return the change of the weights since earlier ones, None if an atom with weight was dropped."""
        places = {id(atom): place for place, atom in enumerate(self.atoms)}
        change = self.weights.copy()
        for j in np.flatnonzero(weights):
            place = places.get(id(atoms[j]))
            if place is None:
                return None
            change[place] -= weights[j]
        change[np.abs(change) <= 8.0 * np.finfo(np.float64).eps] = 0.0  # rounding must not be extrapolated
        return change

    def add_square(self, f: Function, L: float) -> None:
        if self.f is None:
            return
        m = len(self)
        self._images.replace([self.image(place) + L * atom.dense() for place, atom in enumerate(self.atoms)])
        self._short = False
        for place, atom in enumerate(self.atoms):
            dense = atom.dense()
            self.M[place, :m] += L * self.scores(dense)
            self.noise = max(self.noise, 64.0 * eps_of(dense) * norm(self.image(place)) * norm(dense))
        self.f = f

    def get_state(self) -> dict[str, Any]:
        m = len(self)
        return {
            "atoms": list(self.atoms),
            "weights": self.weights.copy(),
            "zero": self._zero,
            "findable": [self._places.get(atom.key) == place for place, atom in enumerate(self.atoms)],
            "cap": self.cap,
            "room": self._room,
            "f": self.f,
            "images": list(self._images.arrays),
            "M": self.M[:m, :m].copy() if self.f is not None else None,
            "twists": self._twists[:m].copy(),
            "noise": self.noise,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> ActiveSet:
        active = cls(state["zero"], state["cap"])
        active._zero = state["zero"]
        active.restart(state["atoms"], state["weights"])
        findable = state["findable"]
        active._places = {a.key: j for j, a in enumerate(active.atoms) if findable[j]}
        active._room, active.f = state["room"], state["f"]
        active._images.arrays += state["images"]
        active._short = any(image.shape != state["zero"].shape for image in state["images"])
        active.noise = state["noise"]
        if state["M"] is not None:
            active.M, active._twists = state["M"], state["twists"]
        return active

    def __repr__(self) -> str:
        return f"ActiveSet({int((self.weights > 0.0).sum())} atoms)"

    def _extend(self, atoms: list[Atom]) -> None:
        place = len(self.atoms)
        if place + len(atoms) > len(self._weights):
            self._weights = np.append(self._weights, np.zeros(max(place, len(atoms))))
        self._weights[place : place + len(atoms)] = 0.0
        self.atoms += atoms
        kinds: dict[Hashable, list[int]] = {}
        for at, atom in enumerate(atoms):
            kinds.setdefault(kind_of(atom), []).append(at)
        for kind, members in kinds.items():
            if kind not in self._stacks:
                self._stacks[kind] = (stack_for(atoms[members[0]]), Rows(1, np.intp))
            stack, places = self._stacks[kind]
            stack.extend([atoms[at] for at in members])
            places.extend(place + np.array(members)[:, None])

    def _append_images(self, images: list[Array]) -> None:
        first = len(self._images.arrays)
        last = first + len(images)
        self._images.arrays += images
        if last > len(self.M):
            size = max(min(max(2 * len(self.M), 16), self.cap), last)
            grown = np.zeros((size, size))
            grown[:first, :first] = self.M[:first, :first]
            self.M = grown
            self._twists = np.append(self._twists, np.zeros(size - len(self._twists)))
        rows = self._rows(images, first, last)
        self.M[first:last, :first] = rows[:, :first]
        self.M[:first, first:last] = rows[:, :first].T
        among = np.tril(rows[:, first:])
        self.M[first:last, first:last] = among + np.tril(among, -1).T

    def _rows(self, images: list[Array], first: int, last: int) -> np.ndarray:
        if self._short:
            return np.asarray(np.stack(images) @ np.stack(self._images.arrays).T)
        rows = np.empty((len(images), len(self)))
        for stack, places in self._stacks.values():
            rows[:, places.array[:, 0]] = stack.inner_all(images)
        rows = rows[:, :last]
        # <image_i, a_j> = <H a_i, a_j> + <b, a_j> is symmetric up to the second term, b the gradient at 0.
        # Up to a constant, that term is the difference of two atoms' products with each other's image.
        origin = self._twists[0] if first else 0.0
        self._twists[first:last] = origin + self.scores(self.image(0))[first:last] - rows[:, 0]
        return rows - self._twists[:last]

    def _make_room(self, count: int = 1) -> None:
        used = np.flatnonzero(self.weights)
        most = (3 * self.cap) // 4
        if len(used) > most:
            order = used[np.argsort(self._weights[used], kind="stable")]
            self._merge(order[: len(used) - most // 2], np.sort(order[len(used) - most // 2 :]))
        else:
            self._keep(used)
        self._room = min(max(2 * len(self), len(self) + count) + 32, self.cap)

    def _keep(self, places: np.ndarray) -> None:
        images, f, heard = self._images, self.f, int((places < self._heard).sum())
        size = len(places)
        if f is not None:
            images.keep(places)
            self.M[:size, :size] = self.M[np.ix_(places, places)]
            self._twists[:size] = self._twists[places]
        self.restart([self.atoms[j] for j in places], self.weights[places])
        self._images, self.f, self._heard = images, f, heard

    def restart(self, atoms: list[Atom], weights: np.ndarray) -> None:
        self.atoms, self._stacks = [], {}
        self._images, self.f = DenseStack(), None
        self._extend(atoms)
        self.weights[:] = weights
        self._places = {atom.key: place for place, atom in enumerate(self.atoms)}

    def _merge(self, light: np.ndarray, heavy: np.ndarray) -> None:
        total = float(self.weights[light].sum())
        shares = np.zeros(len(self))
        shares[light] = self.weights[light] / total
        merge = getattr(self.atoms[light[-1]], "merged", None)
        compact = merge([self.atoms[j] for j in light], shares[light]) if merge is not None else None
        mean: Atom = Dense(self.combine(self._zero, shares)) if compact is None else compact
        zero = 0.0 * self._images.arrays[0] if self._short else self._zero
        image = None if self.f is None else self._images.add(zero, shares)
        self._keep(heavy)
        self._extend([mean])
        self.weights[-1] = total
        if image is not None:
            self._append_images([image])


def _usual_cap(x: Array) -> int:
    return min(CAP, max(MEMORY // (8 * int(math.prod(x.shape))), 32))


def _within(atom: Atom, domain: Any, rounding: float) -> Atom | None:
    """Return a recast atom, or a nearby vertex or projection in the set; None if that cannot be checked."""
    if not isinstance(atom, Dense | Entries):
        return atom
    if domain is None:
        return None
    domain, s = as_set(domain), atom.dense()
    if domain.contains(s, 0.0):
        return atom
    vertex: Atom = domain.oracle()(like(to_numpy(domain.start()), s) - s)
    if norm(vertex.dense() - s) <= 4.0 * rounding * norm(s):
        return vertex
    return Dense(domain.project(s)) if domain.projects else None
