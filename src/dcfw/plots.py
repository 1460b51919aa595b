"""Plots of one run, of several runs, of searches with their bounds, and performance profiles.

Functions draw into the given Matplotlib axes without using pyplot, or into a new figure, and return the axes.
Matplotlib is imported on the first call.  Axes of gaps are logarithmic, as are those of counts and seconds
that grow more than a hundredfold; a triangle below the line then stands for 0.  The colours of Okabe and Ito
are distinct for all kinds of colour vision, and lines also differ in their dashes.
"""

from __future__ import annotations

import itertools
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
LOGARITHMIC = ("excess", "gap", "dc_gap", "dc_low", "dc_high", "eps")
FEW = 12  # lines with at most this many points have markers, so that a single point is visible
WIDE = 100.0  # counts and seconds that grow by more than this factor have a logarithmic axis
GREY = "#808080"


def plot(
    result: Result, ax: Any = None, *, y: str = "certificate", x: str | None = None, **style: Any
) -> Any:
    """Draw one run: its certificate, or a column of its history against another.

    Parameters
    ----------
    result : Result
        A result of :func:`dcfw.minimize`.
    ax : matplotlib axes, optional
        The axes to draw into, by default those of a new figure.
    y : str
        ``"certificate"`` (the interval of the DC gap, the FW gap, the tolerance and, on a second axis, the
        calls of the linear oracle), ``"dc_gap"`` (the certified interval as a band, its upper end as a line),
        ``"excess"`` (the value above the lowest of the run, or above ``floor``; below the highest for a
        maximised QAP), or a column of the history such as ``"gap"`` or ``"fun"``.
    x : str
        A column of the history; by default ``"nit"`` for the certificate and otherwise ``"n_lmo"``.
    **style
        Options of ``ax.plot``, and ``floor``.

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
    x = ("nit" if y == "certificate" else "n_lmo") if x is None else x
    x = _validate.choice(x, "x", History.columns)
    ax = _axes(ax)
    if y == "certificate":
        return _certificate(result, ax, x, style)
    floor, first, across = style.pop("floor", None), not ax.has_data(), history[x]
    if y == "excess":
        values = history["fun"] - (_floor([result]) if floor is None else floor)
        values = -values if _maximised(result) else values
    else:
        values = history["dc_high" if y == "dc_gap" else y]
    if y in LOGARITHMIC:
        values, vanished = _positive(values)
    style = {"linewidth": 1.6, **style}
    if "color" not in style and "c" not in style:
        drawn = [line for line in ax.lines if line.get_label() != "_nolegend_"]
        style["color"] = COLOURS[len(drawn) % len(COLOURS)]
    if len(across) <= FEW:
        style = {"marker": "o", "markersize": 3.5, **style}
    (line,) = ax.plot(across, values, **style)
    colour = line.get_color()
    if y in LOGARITHMIC and vanished.any():
        ax.plot(across[vanished], values[vanished], "v", markersize=7.0, color=colour, label="_nolegend_")
    known = np.isfinite(values) & (values > 0.0)
    if y == "dc_gap" and known.any():  # a lower end of 0 reaches the edge of the plot
        low = history["dc_low"]
        positive = np.concatenate([values[known], low[known & (low > 0.0)]])
        low = np.maximum(low, 0.1 * float(positive.min()))
        ax.fill_between(across, low, values, where=known, color=colour, alpha=0.2, linewidth=0.0)
    if first:
        _dress(ax, x, y, across)
        if y == "excess" and _maximised(result):
            ax.set_ylabel("value below the highest, $\\phi_{\\max} - \\phi$")
    return ax


def _certificate(result: Result, ax: Any, x: str, style: dict[str, Any]) -> Any:
    """Draw the certified band, the FW gap, the tolerance, and the oracle calls on a second axis."""
    plot(result, ax, y="dc_gap", x=x, **({"label": "DC gap, at most (band: certified)"} | style))
    plot(result, ax, y="gap", x=x, label="Frank-Wolfe gap", color=COLOURS[1], linestyle=LINES[1])
    if result.threshold:
        label = f"tolerance {result.threshold:.1e}"
        ax.axhline(result.threshold, label=label, color=GREY, linestyle=":", linewidth=1.2)
    if x != "n_lmo":
        calls = ax.twinx()
        calls.plot(result.history[x], result.history["n_lmo"], color=GREY, linewidth=0.8)
        calls.set_ylabel(LABELS["n_lmo"], color=GREY)
        calls.tick_params(axis="y", colors=GREY)
        calls.set_ylim(bottom=0.0)
    ax.set_ylabel("gap (0: stationary)")
    ax.legend(frameon=False, fontsize="small")
    return ax


def incumbents(result: Any, ax: Any = None, **style: Any) -> Any:
    """Draw the values that a search for a permutation found against time, and its bound.

    Parameters
    ----------
    result : dcfw.qap.QAPResult
        A result of ``dcfw.qap.solve(restarts="auto")``.
    ax : matplotlib axes, optional
        The axes to draw into, by default those of a new figure.
    **style
        Options of ``ax.step``.

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
    times, values = (np.array([float(line[k]) for line in trace]) for k in (0, 1))
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
        ax.fill_between(ends[0], float(result.bound), ends[1], step="post", color=GREY, alpha=0.12)
    ax.set(title=f"value {result.fun:.10g}{bound}", xlabel=result.trace_unit, ylabel="value")
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
    """Draw several runs into one plot.

    Parameters
    ----------
    results : mapping or iterable
        Name -> result, or results, which are named by their method and split.
    ax, y, x
        As in :func:`plot`; ``"excess"`` is measured from the lowest value of all runs.
    legend : bool
        Whether to draw a legend.
    **style
        Options of ``ax.plot`` for all lines.

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

    The height of a method's curve at tau is the fraction of problems on which its cost is at most tau times
    the lowest: at 1, how often it is best; far to the right, how often it succeeds.

    Parameters
    ----------
    costs : mapping
        Method -> positive costs (seconds, oracle calls, ...), one for each problem; ``inf`` for a failure.
    ax : matplotlib axes, optional
        The axes to draw into, by default those of a new figure.
    styles : mapping, optional
        Method -> (colour, line style); other methods have the default style.
    legend : bool
        Whether to draw a legend and label the axes.

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
        # The last height continues: otherwise a method that is always best would have no line.
        ends = np.append(tau, 1e9), np.append(rho, rho[-1])
        ax.step(*ends, where="post", color=colour, linestyle=line, linewidth=1.6, label=method)
        reach = max(reach, float(tau[-1]))
    ax.set(xscale="log", xlim=(1.0, min(reach * 1.1, 1e5)), ylim=(0.0, 1.02))
    _grid(ax)
    if legend:
        ax.set(xlabel="cost over the lowest cost, $\\tau$", ylabel="fraction of the problems")
        ax.legend(frameon=False, loc="lower right")
    return ax


def dashboard(result: Result, figure: Any = None) -> Any:
    """Draw the gap, the value, the certificate and the costs of one run.

    Parameters
    ----------
    result : Result
        A result of :func:`dcfw.minimize`.
    figure : matplotlib figure, optional
        An empty figure to draw into, by default a new one.

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
        figure = pyplot().figure(figsize=(9.0, 6.4))
        if "inline" in str(pyplot().get_backend()):
            pyplot().close(figure)  # a notebook shows what is returned: an open figure would appear twice
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


def pyplot() -> Any:
    """Return Matplotlib's pyplot; the error without Matplotlib names the extra."""
    try:
        from matplotlib import pyplot as found
    except ImportError as error:
        raise ImportError('plots need Matplotlib: pip install "dcfw[plots]"') from error
    return found


def new_axes(columns: int) -> Any:
    """Return the axes of a new figure with ``columns`` panels side by side."""
    return pyplot().subplots(1, columns, figsize=(4.6 * columns, 3.6), layout="constrained")[1]


def _look(place: int) -> dict[str, Any]:
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": LINES[place % len(LINES)]}


def _axes(ax: Any) -> Any:
    if ax is None:
        return pyplot().subplots(layout="constrained")[1]
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
            base = f"{result.get('method', 'run')}, {result.get('split', '')}".rstrip(", ")
            names = itertools.chain([base], (f"{base} ({count})" for count in itertools.count(2)))
            named[next(name for name in names if name not in named)] = result
    if not named:
        raise ValueError("results must not be empty")
    return named


def _maximised(result: Result) -> bool:
    """Return whether a run has maximised a QAP, so that its values rise."""
    fun = _history(result)["fun"]
    return "relaxed_fun" in result and bool(fun[-1] > fun[0])


def _floor(results: list[Result]) -> float | None:
    """Return the best value of runs that have all minimised, or all maximised."""
    if not results:
        return None
    values = np.concatenate([_history(result)["fun"] for result in results])
    return float(np.nanmax(values) if _maximised(results[0]) else np.nanmin(values))


def _positive(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values for a logarithmic axis, zeros placed below the rest, and the mask of these zeros."""
    usable, vanished = np.isfinite(values) & (values > 0.0), values == 0.0
    below = 0.1 * float(values[usable].min()) if usable.any() else 1e-16
    return np.where(vanished, below, np.where(usable, values, np.nan)), vanished


def _dress(ax: Any, x: str, y: str, across: np.ndarray) -> None:
    ax.set(xlabel=LABELS.get(x, x), ylabel=LABELS.get(y, y))
    _grid(ax)
    if x != "time":
        ax.xaxis.get_major_locator().set_params(integer=True)
    if y in LOGARITHMIC:
        ax.set_yscale("log")
    _scale_across(ax, x, across)


def _grid(ax: Any) -> None:
    ax.grid(True, color=GREY, alpha=0.25, linewidth=0.6)  # visible on light and dark backgrounds
    ax.set_axisbelow(True)


def _scale_across(ax: Any, x: str, across: np.ndarray) -> None:
    positive = across[across > 0.0]
    if positive.size and positive.max() > WIDE * positive.min():
        if x == "time" or (across > 0.0).all():
            ax.set_xscale("log")
        else:  # some counts start at zero
            ax.set_xscale("symlog", linthresh=1.0)
            ax.set_xlim(left=0.0)


__all__ = ["COLOURS", "LINES", "compare", "dashboard", "incumbents", "performance_profile", "plot"]
