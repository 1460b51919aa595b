"""Where data files are looked for.

The library ships no data sets.  It looks for them first in the folder named by the environment variable
``DCFW_DATA`` and then in its own cache folder, which is where ``dcfw fetch`` puts them.  Inside such a
folder each data set has a folder of its own, for example ``qaplib``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dcfw import _validate

VARIABLE = "DCFW_DATA"
"""The environment variable that names the data folder."""


def cache_folder() -> Path:
    """Return the user's cache folder for this library (it need not exist).

    Examples
    --------
    >>> cache_folder().name
    'dcfw'
    """
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "dcfw"
    base = os.environ.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():  # the XDG specification says to ignore relative paths
        return Path(base) / "dcfw"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "dcfw"


def data_folder() -> Path:
    """Return the folder that data are written to: ``DCFW_DATA`` if it is set, else the cache folder.

    Examples
    --------
    >>> isinstance(data_folder(), Path)
    True
    """
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else cache_folder()


def find(relative: str | os.PathLike[str]) -> Path:
    """Return the first existing ``relative`` path in ``DCFW_DATA`` or the cache folder.

    Raises
    ------
    FileNotFoundError
        When neither has it; the message names both folders and how to bring the data.

    Examples
    --------
    >>> find("no/such/file")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
        ...
    FileNotFoundError: ...
    """
    relative = _validate.path(relative, "relative")
    if relative.is_absolute() or ".." in relative.parts:
        raise ValueError(f"relative must be a path inside a data folder, got {str(relative)!r}")
    folders = list(dict.fromkeys([data_folder(), cache_folder()]))
    for folder in folders:
        if (folder / relative).exists():
            return folder / relative
    looked = " and ".join(str(folder) for folder in folders)
    data_set = relative.parts[0] if relative.parts else "qaplib"
    raise FileNotFoundError(
        f"{relative.as_posix()!r} was not found in {looked}; set the environment variable {VARIABLE} to the "
        f"folder that holds it, or run `dcfw fetch {data_set}`"
    )
