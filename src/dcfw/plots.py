"""Pictures of results: one run, several runs against each other, performance profiles.

``res.plot()`` draws the certificate of a run: the band that holds the DC gap, the FW gap, the tolerance, and
the calls of the linear oracle on a second axis.  ``compare`` draws several runs into one picture,
``compare([minimize(phi, domain, method=m) for m in ("dcfw", "fw")])``; ``incumbents`` a search for a
permutation with its bound; ``dashboard`` one run from four sides; ``performance_profile`` sums up many runs
of several methods.  All take Matplotlib axes and return them, and leave pyplot alone then; without any, a new
figure is made.  Matplotlib is imported when something is drawn, not before.

Axes are logarithmic where numbers run over orders of magnitude: gaps always, counts and seconds where they
grow more than a hundredfold.  The colours are those of Okabe and Ito, which people with any kind of colour
vision can tell apart, and lines differ in their dashes as well.  On a logarithmic axis a triangle
below the lowest point of the line stands for 0.

>>> import dcfw
>>> res = dcfw.minimize(dcfw.functions.SquaredNorm(1.0), dcfw.sets.Simplex(3), [0.6, 0.4, 0.0])
>>> ax = res.plot(y="dc_gap", x="nit")          # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dcfw import _validate
from dcfw import profiles as _profiles
from dcfw.result import History, Result

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#808080")
LINES = ("-", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))

LABELS = {
    "nit": "outer steps",
    "fun": "value $\\phi$",
    "excess": "value above the lowest, $\\phi - \\phi_{\\min}$",
    "gap": "Frank-Wolfe gap",
    "dc_gap": "DC gap (certified interval)",
    "dc_low": "DC gap, at least",
    "dc_high": "DC gap, at most",
    "eps": "inner tolerance",
    "n_inner": "inner steps",
    "n_lmo": "calls of the linear oracle",
    "n_grad_f": "gradients of $f$",
    "n_grad_g": "subgradients of $g$",
    "n_fun": "values of $\\phi$ or $f$",
    "time": "seconds",
}
"""Labels of the axes."""

LOGARITHMIC = ("excess", "gap", "dc_gap", "dc_low", "dc_high", "eps")

FEW = 12
"""Lines with at most this many points show markers, so that a single point is visible."""

WIDE = 100.0
"""Counts and seconds that grow by more than this factor get a logarithmic axis."""


def plot(
    result: Result, ax: Any = None, *, y: str = "certificate", x: str | None = None, **style: Any
) -> Any:
    """Draw one run: its certificate, or a column of its history against another.

    Parameters
    ----------
    result : Result
        Of :func:`dcfw.minimize`.
    ax : matplotlib axes, optional
        Where to draw; a new figure's unless given.
    y : str
        ``"certificate"`` (the band that holds the DC gap, the FW gap, the tolerance and, on a second axis,
        the calls of the linear oracle), ``"gap"``, ``"fun"``, ``"excess"`` (the value above the lowest of the
        run, or above ``floor``; below the highest where a QAP was maximised), ``"dc_gap"`` (the certified
        interval as a band, its upper end as a line), or any other column of the history.
    x : str
        A column of the history, such as ``"n_lmo"``, ``"nit"``, ``"time"``, ``"n_grad_f"``; by default
        ``"nit"`` for the certificate and ``"n_lmo"`` for all else.
    **style
        For ``ax.plot`` (``color``, ``linestyle``, ``label``, ...).  ``floor`` is what ``"excess"`` is
        measured from.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import dcfw
    >>> from matplotlib.figure import Figure
    >>> run = dcfw.minimize(dcfw.functions.SquaredNorm(2.0), dcfw.sets.Simplex(3), [0.5, 0.5, 0.0])
    >>> ax = dcfw.plots.plot(run, Figure().subplots(), x="nit", color="black")
    >>> ax.get_xlabel(), ax.get_yscale()
    ('outer steps', 'log')
    """
    history = _history(result)
    y = _validate.choice(y, "y", ("certificate", "excess", "dc_gap", *History.columns))
    if x is None:
        x = "nit" if y == "certificate" else "n_lmo"
    x = _validate.choice(x, "x", History.columns)
    if y == "certificate":
        return _certificate(result, _axes(ax), x, style)
    floor = style.pop("floor", None)
    ax = _axes(ax)
    first = not ax.has_data()
    across, values = history[x], _values(result, y, floor)
    if y in LOGARITHMIC:
        values, vanished = _positive(values)
    style = {"linewidth": 1.6, **style}
    if "color" not in style and "c" not in style:
        drawn = [line for line in ax.lines if line.get_label() != "_nolegend_"]
        style["color"] = COLOURS[len(drawn) % len(COLOURS)]
    if len(across) <= FEW:
        style = {"marker": "o", "markersize": 3.5, **style}
    (line,) = ax.plot(across, values, **style)
    if y in LOGARITHMIC and vanished.any():
        mark = {"linestyle": "none", "marker": "v", "markersize": 7.0, "color": line.get_color()}
        ax.plot(across[vanished], values[vanished], label="_nolegend_", **mark)
    if y == "dc_gap":
        _band(ax, across, history["dc_low"], values, line.get_color())
    if first:
        _dress(ax, x, y, across)
        if y == "excess" and _maximised(result):
            ax.set_ylabel("value below the highest, $\\phi_{\\max} - \\phi$")
    return ax


def _certificate(result: Result, ax: Any, x: str, style: dict[str, Any]) -> Any:
    """Draw the certified band with the FW gap, the tolerance, and the oracle calls on a second axis."""
    plot(result, ax, y="dc_gap", x=x, **({"label": "DC gap, at most (band: certified)"} | style))
    plot(result, ax, y="gap", x=x, label="Frank-Wolfe gap", color=COLOURS[1], linestyle=LINES[1])
    if result.threshold:
        look = {"color": "#808080", "linestyle": ":", "linewidth": 1.2}
        ax.axhline(result.threshold, label=f"tolerance {result.threshold:.1e}", **look)
    if x != "n_lmo":
        calls = ax.twinx()
        calls.plot(result.history[x], result.history["n_lmo"], color="#808080", linewidth=0.8)
        calls.set_ylabel(LABELS["n_lmo"], color="#808080")
        calls.tick_params(axis="y", colors="#808080")
        calls.set_ylim(bottom=0.0)
    ax.set_ylabel("gap (0: stationary)")
    ax.legend(frameon=False, fontsize="small")
    return ax


def incumbents(result: Any, ax: Any = None, **style: Any) -> Any:
    """Draw the values that a search for a permutation found against time, and the bound it cannot pass.

    Parameters
    ----------
    result : dcfw.qap.QAPResult
        Of ``dcfw.qap.solve(restarts="auto")``.
    ax : matplotlib axes, optional
    **style
        For ``ax.step``.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from dcfw import plots, qap
    >>> from matplotlib.figure import Figure
    >>> problem = qap.generators.nugent((2, 3), rng=0)
    >>> found = qap.solve(problem.A, problem.B, restarts="auto", max_steps=200, rng=0)
    >>> plots.incumbents(found, Figure().subplots()).get_ylabel()
    'value'
    """
    trace = result.get("trace") if isinstance(result, Mapping) else None
    if not trace:
        raise TypeError("result: a result of dcfw.qap.solve(restarts='auto') is needed, which has a trace")
    ax = _axes(ax)
    times, values = [np.array([float(line[k]) for line in trace]) for k in (0, 1)]
    end = max(result.time, times[-1]) if result.trace_unit == "seconds" else times[-1]
    ends = np.append(times, end), np.append(values, values[-1])
    (line,) = ax.step(*ends, where="post", **{"color": COLOURS[0], "linewidth": 1.6, **style})
    searches = list(dict.fromkeys(entry.search for entry in trace))
    for marker, search in zip("os^Dv*", searches, strict=False):
        own = np.array([entry.search == search for entry in trace])
        ax.plot(times[own], values[own], marker, color=line.get_color(), markersize=5, label=search)
    bound = "" if result.bound is None else f", bound {result.bound:.10g}"
    if bound:
        ax.axhline(float(result.bound), color=COLOURS[1], linestyle=LINES[1], label=f"bound {result.bound:g}")
        ax.fill_between(ends[0], float(result.bound), ends[1], step="post", color="#808080", alpha=0.12)
    ax.set_title(f"value {result.fun:.10g}{bound}")
    ax.set_xlabel(result.trace_unit)
    ax.set_ylabel("value")
    _grid(ax)
    _scale_across(ax, "time", times)
    ax.legend(frameon=False, fontsize="small")
    return ax


def compare(
    results: Mapping[str, Result] | Iterable[Result],
    ax: Any = None,
    *,
    y: str = "gap",
    x: str = "n_lmo",
    legend: bool = True,
    **style: Any,
) -> Any:
    """Draw several runs into one picture.

    Parameters
    ----------
    results : mapping or iterable
        Name -> result, or the results: these are called by their method and split.
    ax, y, x
        As in :func:`plot`; ``"excess"`` is measured from the lowest value of all runs.
    legend : bool
        Whether to say which line is which.
    **style
        For all lines.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, dcfw
    >>> from dcfw import functions, plots, sets
    >>> from matplotlib.figure import Figure
    >>> phi = functions.Quadratic(np.diag([1.0, -2.0, 0.5]), np.array([0.1, 0.2, -0.3]))
    >>> runs = {name: dcfw.minimize(phi, sets.LInfBall(3), method=name) for name in ("dcfw", "fw")}
    >>> ax = plots.compare(runs, Figure().subplots(), y="excess", x="time")
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['dcfw', 'fw']
    """
    named = _named(results)
    y = _validate.choice(y, "y", ("excess", "dc_gap", *History.columns))
    x = _validate.choice(x, "x", History.columns)
    floors = {kind: _floor([r for r in named.values() if _maximised(r) is kind]) for kind in (False, True)}
    ax = _axes(ax)
    legend = _validate.flag(legend, "legend")
    for place, (name, result) in enumerate(named.items()):
        look = _look(place) | style
        plot(result, ax, y=y, x=x, label=name, floor=floors[_maximised(result)], **look)
    _scale_across(ax, x, np.concatenate([result.history[x] for result in named.values()]))
    if legend:
        ax.legend(frameon=False)
    return ax


def performance_profile(
    costs: Mapping[str, Sequence[float]],
    ax: Any = None,
    *,
    styles: Mapping[str, tuple[Any, Any]] | None = None,
    legend: bool = True,
) -> Any:
    """Draw the performance profiles of Dolan and Moré.

    The height of a method's curve at tau is the fraction of problems on which it costs at most tau times
    what the best method costs: at 1, how often it is best; far to the right, how often it succeeds.

    Parameters
    ----------
    costs : mapping
        Method -> positive costs (seconds, oracle calls, ...), one for each problem; ``inf`` for a failure.
    ax : matplotlib axes, optional
    styles : mapping, optional
        Method -> (colour, line style); methods that are not in it look as usual.
    legend : bool

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from dcfw import plots
    >>> from matplotlib.figure import Figure
    >>> ax = plots.performance_profile({"fw": [2, 1, 9], "dcfw": [1, 3, 3]}, Figure().subplots())
    >>> [line.get_label() for line in ax.lines]
    ['fw', 'dcfw']
    """
    profiles = _profiles.performance_profile(costs)
    ax = _axes(ax)
    legend = _validate.flag(legend, "legend")
    if styles is not None and not isinstance(styles, Mapping):
        raise TypeError(f"styles must be a dictionary by method, got {type(styles).__name__}")
    reach = 2.0
    for place, (method, (tau, rho)) in enumerate(profiles.items()):
        colour, line = (styles or {}).get(method, _look(place).values())
        # The last height holds for ever: without that a method that is always best would have no line.
        ends = np.append(tau, 1e9), np.append(rho, rho[-1])
        ax.step(*ends, where="post", color=colour, linestyle=line, linewidth=1.6, label=method)
        reach = max(reach, float(tau[-1]))
    ax.set_xscale("log")
    ax.set_xlim(1.0, min(reach * 1.1, 1e5))
    ax.set_ylim(0.0, 1.02)
    _grid(ax)
    if legend:
        ax.set_xlabel("cost over the lowest cost, $\\tau$")
        ax.set_ylabel("fraction of the problems")
        ax.legend(frameon=False, loc="lower right")
    return ax


def dashboard(result: Result, figure: Any = None) -> Any:
    """Draw one run from four sides: its gap, its value, its certificate, what it cost.

    Parameters
    ----------
    result : Result
    figure : matplotlib figure, optional
        An empty one to draw into; a new one unless given.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> import dcfw, matplotlib.figure
    >>> objective, domain = dcfw.functions.SquaredNorm(1.0), dcfw.sets.Simplex(3)
    >>> run = dcfw.minimize(objective, domain, [0.6, 0.4, 0.0])
    >>> empty = matplotlib.figure.Figure()
    >>> len(dcfw.plots.dashboard(run, empty).axes)
    4
    """
    history = _history(result)
    if figure is None:
        figure = _pyplot().figure(figsize=(9.0, 6.4))
        if "inline" in str(_pyplot().get_backend()):
            _pyplot().close(figure)  # a notebook shows what is returned, and would show it twice
    elif not hasattr(figure, "set_layout_engine"):
        raise TypeError(f"figure must be a Matplotlib figure, got {type(figure).__name__}")
    figure.set_layout_engine("constrained")
    (gap, value), (certificate, cost) = figure.subplots(2, 2)
    plot(result, gap, y="gap", x="n_lmo")
    plot(result, value, y="fun", x="time")
    plot(result, certificate, y="dc_gap", x="nit")
    for place, name in enumerate(("n_inner", "n_lmo", "n_grad_f", "n_grad_g", "n_fun")):
        cost.plot(history["nit"], history[name], linewidth=1.6, label=LABELS[name], **_look(place))
    _dress(cost, "nit", "n_lmo", history["nit"])
    cost.set_ylabel("calls")
    cost.set_yscale("symlog", linthresh=1.0)
    cost.set_ylim(bottom=0.0)
    cost.legend(frameon=False, fontsize="small")
    figure.suptitle(f"{result.get('method', '')}, split {result.get('split', '')}: {result.status.name}")
    return figure


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('plots need Matplotlib: pip install "dcfw[plots]"') from error
    return pyplot


def new_axes(columns: int) -> Any:
    """Return the axes of a new figure with ``columns`` panels side by side."""
    return _pyplot().subplots(1, columns, figsize=(4.6 * columns, 3.6), layout="constrained")[1]


def _look(place: int) -> dict[str, Any]:
    """Return the colour and the dashes of the line in this place."""
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": LINES[place % len(LINES)]}


def _axes(ax: Any) -> Any:
    """Return the axes to draw into, new ones if none are given."""
    if ax is None:
        return _pyplot().subplots(layout="constrained")[1]
    if not hasattr(ax, "has_data"):
        raise TypeError(f"ax must be Matplotlib axes, got {type(ax).__name__}")
    return ax


def _history(result: Any) -> History:
    history = result.get("history") if isinstance(result, Mapping) else None
    if not isinstance(history, History):
        raise TypeError(f"result: a result of dcfw.minimize is needed, got {type(result).__name__}")
    if not len(history):
        raise ValueError("the result has no history: its run ended before the first gap was known")
    return history


def _named(results: Any) -> dict[str, Result]:
    """Return the results by name; equal names get a number."""
    if isinstance(results, Result):
        results = [results]
    if isinstance(results, Mapping):
        named = dict(results)
    else:
        named = {}
        for result in _validate.listed(results, "results"):
            _history(result)
            base = name = f"{result.get('method', 'run')}, {result.get('split', '')}".rstrip(", ")
            count = 1
            while name in named:
                count += 1
                name = f"{base} ({count})"
            named[name] = result
    if not named:
        raise ValueError("results must not be empty")
    return named


def _values(result: Result, y: str, floor: float | None) -> np.ndarray:
    history = _history(result)
    if y == "dc_gap":
        return history["dc_high"]
    if y == "excess":
        above = history["fun"] - (_floor([result]) if floor is None else floor)
        return -above if _maximised(result) else above
    return history[y]


def _maximised(result: Result) -> bool:
    """Return whether a run has maximised (:mod:`dcfw.qap`), so that its values rise."""
    fun = _history(result)["fun"]
    return "relaxed_fun" in result and bool(fun[-1] > fun[0])


def _floor(results: list[Result]) -> float | None:
    """Return the best value of runs that have all minimised, or all maximised."""
    if not results:
        return None
    values = np.concatenate([_history(result)["fun"] for result in results])
    return float(np.nanmax(values) if _maximised(results[0]) else np.nanmin(values))


def _positive(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values for a logarithmic axis, zeros a little below the rest, and where these are."""
    usable, vanished = np.isfinite(values) & (values > 0.0), values == 0.0
    below = 0.1 * float(values[usable].min()) if usable.any() else 1e-16
    return np.where(vanished, below, np.where(usable, values, np.nan)), vanished


def _band(ax: Any, across: np.ndarray, low: np.ndarray, high: np.ndarray, colour: Any) -> None:
    """Fill between the two ends of the certified interval; an end of 0 reaches the edge of the picture."""
    known = np.isfinite(high) & (high > 0.0)
    if not known.any():
        return
    positive = np.concatenate([high[known], low[known & (low > 0.0)]])
    low = np.maximum(low, 0.1 * float(positive.min()))
    ax.fill_between(across, low, high, where=known, color=colour, alpha=0.2, linewidth=0.0)


def _dress(ax: Any, x: str, y: str, across: np.ndarray) -> None:
    """Name and scale the axes of a picture that has just got its first line."""
    ax.set_xlabel(LABELS.get(x, x))
    ax.set_ylabel(LABELS.get(y, y))
    _grid(ax)
    if x != "time":
        ax.xaxis.get_major_locator().set_params(integer=True)
    if y in LOGARITHMIC:
        ax.set_yscale("log")
    _scale_across(ax, x, across)


def _grid(ax: Any) -> None:
    ax.grid(True, color="#808080", alpha=0.25, linewidth=0.6)  # on light and dark ground
    ax.set_axisbelow(True)


def _scale_across(ax: Any, x: str, across: np.ndarray) -> None:
    positive = across[across > 0.0]
    if positive.size and positive.max() > WIDE * positive.min():
        # "symlog" has room for the zero at which some counts start.
        if x == "time" or (across > 0.0).all():
            ax.set_xscale("log")
        else:
            ax.set_xscale("symlog", linthresh=1.0)
            ax.set_xlim(left=0.0)


__all__ = ["COLOURS", "LINES", "compare", "dashboard", "incumbents", "performance_profile", "plot"]
