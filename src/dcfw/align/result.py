"""The result of :func:`dcfw.align.align`: a :class:`dcfw.Result` with the rotation."""

from __future__ import annotations

from typing import Any

import numpy as np

from dcfw._arrays import to_numpy
from dcfw.result import Result, summary


class AlignResult(Result):
    """The fields of :class:`dcfw.Result` and those of an alignment.

    ``rotation``  the orthogonal matrix nearest to ``x``
    ``product``   how gradients were computed (:mod:`dcfw.align.products`)

    Examples
    --------
    >>> import numpy as np
    >>> from dcfw import align
    >>> E = np.random.default_rng(0).standard_normal((2, 20))
    >>> align.align(E, E[::-1]).rotation.round(3) + 0.0
    array([[0., 1.],
           [1., 0.]])
    """

    rotation: Any
    product: str = ""

    def plot(
        self,
        ax: Any = None,
        *,
        y: str = "alignment",
        x: str | None = None,
        E1: Any = None,
        Y: Any = None,
        **style: Any,
    ) -> Any:
        """Plot the singular values of ``x`` beside the residuals of the words and return the two axes.

        Singular values of 1 make ``x`` a rotation.  A residual is the root mean square of a word's observed
        entries in ``rotation @ E1 - Y``.  Without the data the certificate takes its place.

        Parameters
        ----------
        ax : pair of matplotlib axes, optional
            By default those of a new figure.
        y, x, **style
            Any ``y`` other than ``"alignment"`` gives the plot of :meth:`dcfw.Result.plot`, on one ``ax``.
        E1, Y : arrays, optional
            Source and target, as in :func:`dcfw.align.align`; Y with NaN where it is not observed.
        """
        from dcfw import plots

        if y != "alignment":
            return super().plot(ax, y=y, x=x, **style)
        left, right = plots.new_axes(2) if ax is None else ax
        sigma = np.linalg.svd(to_numpy(self.x), compute_uv=False)
        left.plot(np.arange(1, len(sigma) + 1), sigma, "o-", color=plots.COLOURS[0], markersize=4)
        left.axhline(1.0, color="#808080", linestyle=":")
        title = "singular values (all 1: a rotation)"
        left.set(xlabel="index", ylabel="value", ylim=(0.0, 1.05), title=title)
        if E1 is None or Y is None:
            super().plot(right)
            return left, right
        target: Any = np.ma.filled(np.ma.asarray(Y, float), np.nan)
        error = (to_numpy(self.rotation) @ np.asarray(E1) - target) ** 2
        seen = ~np.isnan(error)
        words = seen.any(axis=0)
        residuals = np.sqrt(np.nansum(error, axis=0)[words] / seen.sum(axis=0)[words])
        right.hist(residuals, bins=40, color=plots.COLOURS[0], edgecolor="#808080")
        title = f"residuals, median {np.median(residuals):.3g}"
        right.set(xlabel="residual of a word (RMS)", ylabel="words", title=title)
        return left, right

    def _details(self) -> list[str]:
        return [summary("rotation", self.rotation)]
