"""Checksums of QAPLIB's instances: the SHA-256 of their numbers, because copies differ in white space."""

from __future__ import annotations

import hashlib
import json
from importlib import resources


def checksums() -> dict[str, str]:
    """Return the known checksum of each QAPLIB instance.

    >>> len(checksums())
    136
    """
    text = resources.files("dcfw.qap").joinpath("checksums.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def checksum(text: bytes) -> str | None:
    """Return the SHA-256 of the integers in ``text`` joined by single spaces; None if there are others.

    >>> checksum(b"2\\n 0 1") == checksum(b" 2 0 01 ")
    True
    """
    if not isinstance(text, bytes | bytearray):
        raise TypeError(f"text must be bytes, got {type(text).__name__}")
    try:
        numbers = [int(token) for token in text.split()]
    except ValueError:
        return None
    return hashlib.sha256(" ".join(map(str, numbers)).encode()).hexdigest()
