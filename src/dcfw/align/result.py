"""What :func:`dcfw.align.align` returns: a :class:`dcfw.Result` with the rotation."""

from __future__ import annotations

from typing import Any

from dcfw.result import Result, summary


class AlignResult(Result):
    """The fields of :class:`dcfw.Result` and those of an alignment.

    ``rotation``  the orthogonal matrix nearest to ``x``
    ``product``   how gradients were computed (:mod:`dcfw.align.products`)
    """

    rotation: Any
    product: str = ""

    def _details(self) -> list[str]:
        return [summary("rotation", self.rotation)]
