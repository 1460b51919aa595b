"""Traffic assignment: the link flows of travellers in a road network.

Link e with flow v takes the time t_e(v) = t0 (1 + b (v / capacity)^power) (the BPR function).  In a *user
equilibrium* no traveller has a faster route; it minimises Beckmann's sum of integrals of t_e.  The *system
optimum* minimises the total time, the sum of v t_e(v).  Both objectives are convex in the link flows v, which
lie in a :class:`~dcfw.sets.FlowPolytope`; economies of scale (:class:`Savings`) make them differences of
convex functions.

>>> from dcfw import traffic
>>> network = traffic.braess()
>>> traffic.assign(network, rtol=1e-8).x.round(3)
array([4., 2., 2., 2., 4.])
>>> traffic.assign(network, "system", rtol=1e-8).x.round(3) + 0.0
array([3., 3., 0., 3., 3.])
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw._arrays import to_numpy
from dcfw.data import find
from dcfw.functions.base import Function
from dcfw.result import Result
from dcfw.sets.flows import FlowPolytope
from dcfw.solvers.interrupts import guarded

ROUNDING = 1e-5  # relative difference between the trips of a file and their sum in its header

__all__ = ["LinkCosts", "Network", "Savings", "assign", "braess", "read"]


@dataclass(frozen=True, eq=False)
class Network:
    """A road network with its demand; arrays have an entry for each link.

    Parameters
    ----------
    links : array of int
        A row (tail, head) for each link, nodes numbered from 0.
    free_flow_time, capacity, b, power : array
        The parameters of t(v) = free_flow_time (1 + b (v / capacity)^power).
    demands : array
        Trips from zone i to zone j in row i and column j; zones are the first nodes.
    through : int
        Nodes with smaller numbers may not be passed.
    name : str
        The name of the network.

    Examples
    --------
    >>> from dcfw import traffic
    >>> one = np.ones(1)
    >>> road = traffic.Network([[0, 1]], 5 * one, 30 * one, 0.15 * one, 4 * one, [[0.0, 60.0], [0.0, 0.0]])
    >>> road.times(np.array([60.0]))
    array([17.])
    """

    links: np.ndarray
    free_flow_time: np.ndarray
    capacity: np.ndarray
    b: np.ndarray
    power: np.ndarray
    demands: np.ndarray
    through: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        links = np.asarray(to_numpy(_validate.array(self.links, "links", floating=False)))
        if (
            links.ndim != 2
            or links.shape[1] != 2
            or bool((links != np.floor(links)).any() or (links < 0).any())
        ):
            raise ValueError("links must have a row (tail, head) of node numbers 0, 1, 2, ... for each link")
        object.__setattr__(self, "links", links.astype(np.int64))
        size = (len(links),)
        for field in ("free_flow_time", "capacity", "b", "power"):
            values = np.asarray(to_numpy(_validate.array(getattr(self, field), field, shape=size)), float)
            if bool((values < 0.0).any()) or (field == "capacity" and bool((values == 0.0).any())):
                raise ValueError(f"{field} must not be negative, and capacity must be positive")
            object.__setattr__(self, field, values)

    @functools.cached_property
    def domain(self) -> FlowPolytope:
        """The link flows that carry the demand."""
        return FlowPolytope(self.links, self.demands, self.through)

    @functools.cached_property
    def user_equilibrium(self) -> LinkCosts:
        """Beckmann's objective, whose gradient is the links' travel times."""
        return LinkCosts(self, 1.0 / (self.power + 1.0))

    @functools.cached_property
    def system_optimum(self) -> LinkCosts:
        """The total travel time."""
        return LinkCosts(self, np.ones(len(self.power)))

    def times(self, v: np.ndarray) -> np.ndarray:
        """Return the travel time of each link under the flows ``v``."""
        return np.asarray(self.user_equilibrium.grad(v))

    def relative_gap(self, v: np.ndarray, objective: Function | None = None) -> float:
        """Return the share of the total cost, by default time, that the cheapest routes would save."""
        costs = np.asarray((objective or self.user_equilibrium).grad(v))
        return float(costs @ (v - self.domain.lmo(costs))) / float(costs @ v)


class LinkCosts(Function, trusted=True):
    """sum_e t0 (v + weight * b * capacity (v / capacity)^(power + 1)), convex for v >= 0.

    A weight of 1 / (power + 1) gives Beckmann's objective, 1 the total time.

    Examples
    --------
    >>> from dcfw import traffic
    >>> round(traffic.braess().system_optimum.value(np.array([4.0, 2.0, 2.0, 2.0, 4.0])), 3)
    552.0
    """

    convex = True
    differentiable = True

    def __init__(self, network: Network, weight: np.ndarray) -> None:
        self.network = network
        self._curved = network.free_flow_time * network.b * weight

    def value(self, x: Any) -> float:
        load = np.maximum(x, 0.0) / self.network.capacity  # rounding may leave -1e-17, which has no power
        return float(self.network.free_flow_time @ x) + float(self._curved @ (x * load**self.network.power))

    def grad(self, x: Any) -> Any:
        load = np.maximum(x, 0.0) / self.network.capacity
        power = self.network.power
        return self.network.free_flow_time + self._curved * (power + 1.0) * load**power


class Savings(Function, trusted=True):
    """-sum_e price_e log(1 + v_e / size_e), convex: economies of scale to subtract from an objective.

    ``network.system_optimum - Savings(price, size)`` adds operating costs to the total time, whose price per
    unit falls from price / size with the flow: a difference of convex functions.

    Parameters
    ----------
    price, size : float or array_like
        For all links or for each; price >= 0, size > 0.

    Examples
    --------
    >>> from dcfw import traffic
    >>> float(round(-traffic.Savings(3.0, 2.0).value(np.array([2.0, 0.0])), 4))
    2.0794
    """

    convex = True
    differentiable = True

    def __init__(self, price: Any, size: Any) -> None:
        self._price, self._size = (
            np.asarray(to_numpy(_validate.array(values, name)), dtype=np.float64)
            for values, name in ((price, "price"), (size, "size"))
        )
        shapes = {a.shape for a in (self._price, self._size) if a.ndim}
        if len(shapes) > 1 or any(len(shape) > 1 or 0 in shape for shape in shapes):
            raise ValueError(f"price and size must be numbers or vectors of one length, got {sorted(shapes)}")
        if bool((self._price < 0.0).any()) or bool((self._size <= 0.0).any()):
            raise ValueError("price must not be negative, and size must be positive")

    def value(self, x: Any) -> float:
        return -float((self._price * np.log1p(np.maximum(x, 0.0) / self._size)).sum())

    def grad(self, x: Any) -> Any:
        return -self._price / (self._size + np.maximum(x, 0.0))


@guarded
def assign(network: Network, objective: Any = "user", *, rtol: float = 1e-4, **options: Any) -> Result:
    """Return the link flows of a network in equilibrium, or at the optimum of another objective.

    Parameters
    ----------
    network : Network
        The network.
    objective : {"user", "system"} or a function, default "user"
        The user equilibrium, the system optimum, or an objective for :func:`dcfw.minimize` over link flows,
        such as ``network.system_optimum - Savings(...)``.
    rtol : float, default 1e-4
        The gap at which to stop, relative to the cost at free flow (a lower bound of that of the answer).
    **options
        Passed on to :func:`dcfw.minimize`.

    Examples
    --------
    >>> from dcfw import traffic
    >>> res = traffic.assign(traffic.braess(), rtol=1e-6)
    >>> res.success, traffic.braess().relative_gap(res.x) <= 1e-6
    (True, True)
    """
    from dcfw._minimize import minimize

    if not isinstance(network, Network):
        raise TypeError(f"network must be a Network, got {type(network).__name__}")
    rtol = _validate.scalar(rtol, "rtol", low=0.0)
    if isinstance(objective, str):
        _validate.choice(objective, "objective", ("user", "system"))
        objective = network.user_equilibrium if objective == "user" else network.system_optimum
    domain, free = network.domain, network.free_flow_time
    fastest = domain.lmo(free)
    x0, tol = domain.lmo(network.times(fastest)), rtol * float(free @ fastest)
    settings = {"x0": x0, "tol": tol, "inner": "pairwise", "max_inner": 1_000_000, **options}
    return minimize(objective, domain, **settings)


def braess() -> Network:
    """Return Braess's network: six travellers, and a link that increases their travel times.

    Examples
    --------
    >>> from dcfw import traffic
    >>> traffic.braess().times(np.array([4.0, 2.0, 2.0, 2.0, 4.0])) + 0.0
    array([40., 52., 12., 52., 40.])
    """
    links = np.array([[0, 2], [0, 3], [2, 3], [2, 1], [3, 1]])
    demands = np.zeros((4, 4))
    demands[0, 1] = 6.0
    # Times 10 v, 50 + v and 10 + v; a BPR function with a free-flow time of 0 would be constant, hence 1e-9.
    times = np.array([1e-9, 50.0, 10.0, 50.0, 1e-9])
    slopes = np.array([10.0, 1.0, 1.0, 1.0, 10.0])
    return Network(links, times, np.ones(5), slopes / times, np.ones(5), demands, 0, "Braess")


def read(name: Any) -> Network:
    """Return a network of the TransportationNetworks collection.

    Parameters
    ----------
    name : str or path
        A name such as "SiouxFalls", for ``tntp/SiouxFalls_net.tntp`` and ``tntp/SiouxFalls_trips.tntp`` in
        the folder named by ``DCFW_DATA``; or a path to such files without ``_net.tntp``.  Files that hold
        less than their headers state, as after a broken download, are refused.

    Examples
    --------
    >>> from dcfw import traffic
    >>> traffic.read("NoSuchTown")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    FileNotFoundError: ...
    """
    given = _validate.path(name, "name")
    names = [f"{given.name}_{part}.tntp" for part in ("net", "trips")]
    try:
        net, trips = (
            find(f"tntp/{name}") if len(given.parts) == 1 else given.with_name(name) for name in names
        )
        (meta, rows), (sums, lines) = _parts(net), _parts(trips)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise ValueError(f"name {str(given)[:60]!r} is no network: {error.__class__.__name__}") from None
    with _named(net):
        zones, through = int(meta["NUMBER OF ZONES"]), int(meta["FIRST THRU NODE"]) - 1
        table = _table(rows)
        _compare(len(table), meta.get("NUMBER OF LINKS"), "links")
        demands = np.zeros((zones, zones))
    with _named(trips):
        for origin, destination, amount in _trips(lines):
            if not (0 < origin <= zones and 0 < destination <= zones):
                raise ValueError(f"it has trips between zones that {net} does not have")
            demands[origin - 1, destination - 1] += amount
        _compare(float(demands.sum()), sums.get("TOTAL OD FLOW"), "trips")
    with _named(net):
        links, capacity, time, b, power = table[:, :2] - 1.0, *table.T[[2, 4, 5, 6]]
        return Network(links, time, capacity, b, power, demands, through, given.name)


def _parts(path: Path) -> tuple[dict[str, str], list[str]]:
    """Return the metadata and the lines of a TNTP file, comments left out."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    meta = dict(re.findall(r"<([^>]*)>[ \t]*([^\n]*)", "\n".join(lines)))
    return meta, [line for line in lines if line and line[0] not in "~<"]


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in errors about its content."""
    try:
        yield
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} is not a file of a network in the TNTP format: {error}") from None


def _table(lines: list[str]) -> np.ndarray:
    """Return the first seven columns of a network's links."""
    rows = [line.rstrip("; \t").split()[:7] for line in lines]
    short = next((line for line, row in zip(lines, rows, strict=True) if len(row) < 7), None)
    if short is not None:
        raise ValueError(f"a link needs at least 7 columns, but one is {short!r:.60}")
    return np.array(rows, dtype=np.float64).reshape(-1, 7)


def _trips(lines: list[str]) -> Iterator[tuple[int, int, float]]:
    """Yield origin, destination and amount for each entry; 0 stands for a missing origin."""
    origin = 0
    for line in lines:
        if begins := re.fullmatch(r"origin\s+(\d+)", line, re.IGNORECASE):
            origin = int(begins[1])
            continue
        for entry in filter(None, map(str.strip, line.split(";"))):
            trip = re.fullmatch(r"(\d+)\s*:\s*([-+.\deE]+)", entry)
            if trip is None:
                raise ValueError(f"entries must be 'Origin zone' or 'zone : trips;', got {entry!r:.40}")
            yield origin, int(trip[1]), float(trip[2])


def _compare(found: float, stated: str | None, what: str) -> None:
    """Raise unless a file holds as much as its header states."""
    if stated is not None and abs(found - float(stated)) > ROUNDING * abs(float(stated)):
        raise ValueError(
            f"it has {found:.10g} {what}, but its header states {stated}: fetch the file again, or correct "
            "the header if the file is complete"
        )
