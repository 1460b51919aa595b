"""The folders of data files, each with one folder per data set, for example ``qaplib``.

The library ships no data sets.  It searches the folder in the environment variable ``DCFW_DATA``, then its
cache folder, into which ``dcfw-studies fetch`` downloads them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from dcfw import _validate

VARIABLE = "DCFW_DATA"


def cache_folder() -> Path:
    """Return the user's cache folder for this library (it need not exist).

    Raises
    ------
    FileNotFoundError
        If the user has no home folder and no environment variable names another place.

    Examples
    --------
    >>> cache_folder().name
    'dcfw'
    """
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else _home("LOCALAPPDATA") / "AppData" / "Local") / "dcfw"
    base = os.environ.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():  # the XDG specification says to ignore relative paths
        return Path(base) / "dcfw"
    return _home("XDG_CACHE_HOME") / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "dcfw"


def _home(instead: str) -> Path:
    """Return the user's home folder; ``instead`` is the variable to set if there is none."""
    try:
        return Path.home()
    except RuntimeError:  # for example a container whose user has only a number
        raise FileNotFoundError(
            f"this user has no home folder for the cache of dcfw; set the environment variable {instead} to "
            f"an absolute path, or {VARIABLE} to a folder for data"
        ) from None


def data_folder() -> Path:
    """Return the folder to write data to: ``DCFW_DATA`` if it is set, else the cache folder.

    >>> isinstance(data_folder(), Path)
    True
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return cache_folder()
    try:
        folder = Path(named).expanduser()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # exists() would hide all errors
            folder.stat()
        return folder
    except RuntimeError:
        raise FileNotFoundError(
            f"{VARIABLE} is {named!r}, but there is no such home folder; set it to an absolute path"
        ) from None
    except (OSError, ValueError) as error:  # too long, or with a null byte
        raise FileNotFoundError(
            f"{VARIABLE} is {named[:40]!r}..., which is not a path ({getattr(error, 'strerror', error)})"
        ) from None


def find(relative: str | os.PathLike[str]) -> Path:
    """Return the first existing ``relative`` path in ``DCFW_DATA`` or the cache folder.

    Raises
    ------
    FileNotFoundError
        If neither has it; the message names both folders and the command that downloads the data.

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
    folders = [data_folder()] if os.environ.get(VARIABLE) else []
    with contextlib.suppress(FileNotFoundError):  # without a home folder, there is only the named one
        folders.append(cache_folder())
    folders = list(dict.fromkeys(folders))
    for folder in folders:
        if (folder / relative).exists():
            return folder / relative
    looked = " and ".join(str(folder) for folder in folders) or "any folder (this user has no home)"
    data_set = relative.parts[0] if relative.parts else "qaplib"
    raise FileNotFoundError(
        f"{relative.as_posix()!r} was not found in {looked}; set the environment variable {VARIABLE} to the "
        f"folder that holds it, or run `dcfw-studies fetch {data_set}`"
    )
