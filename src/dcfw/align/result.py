"""The result of :func:`dcfw.align.align`: a :class:`dcfw.Result` with the rotation."""

from __future__ import annotations

from typing import Any

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

    def _details(self) -> list[str]:
        return [summary("rotation", self.rotation)]
