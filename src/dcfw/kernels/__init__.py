"""Compiled kernels and their Python fallbacks behind one interface.

The extension ``dcfw._kernels`` is built when the package is installed.  Where that was not possible
(no C++ compiler), :data:`native` is None and every kernel runs in NumPy and SciPy instead: same results
where ties do not decide, but slower.
"""

from __future__ import annotations

from types import ModuleType

native: ModuleType | None
try:
    from dcfw import _kernels as native  # type: ignore[attr-defined, unused-ignore]
except ImportError:
    native = None
