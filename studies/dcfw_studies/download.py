"""Downloads by pooch, over HTTPS only, with a limit of size and a deadline.

pooch keeps files and checks their hashes.  Its own downloader follows a redirection to any address and waits
as long as a server sends a byte now and then, so it is replaced here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pooch
import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

LOCAL = ("http://127.0.0.1:", "http://localhost:")  # accepted without HTTPS, and only on request (by tests)

pooch.get_logger().setLevel("WARNING")


class FetchError(OSError):
    """A data set could not be fetched; the message says why, and how to fetch it by hand."""


def check_address(address: str, *, allow_local: bool = False) -> None:
    """Raise an error for any address but HTTPS.

    >>> check_address("http://example.org/data.tar.gz")
    Traceback (most recent call last):
    ...
    ValueError: url must be an https:// address, got 'http://example.org/data.tar.gz'
    """
    if not address.startswith(("https://", *(LOCAL if allow_local else ()))):
        raise ValueError(f"url must be an https:// address, got {address!r}")


def download(
    address: str,
    folder: Path,
    *,
    limit: int,
    timeout: float = 30.0,
    known_hash: str | None = None,
    allow_local: bool = False,
) -> Path:
    """Download a file to a folder, unless it is there with the known hash (SHA-256), and return its path.

    ``limit`` bounds its size in bytes.  ``timeout`` is the time in seconds to wait for a silent server; the
    download may take ten times that.  Raises OSError or ValueError if the file is not available, is too
    large, takes too long, or has another hash.
    """
    check_address(address, allow_local=allow_local)
    name = address.rpartition("/")[2]
    bounded = _Bounded(limit, timeout, allow_local)
    return Path(pooch.retrieve(address, known_hash, fname=name, path=folder, downloader=bounded))


class _Bounded:
    def __init__(self, limit: int, timeout: float, allow_local: bool) -> None:
        self.limit, self.timeout = limit, timeout
        self.session = requests.Session()
        self.session.adapters.clear()  # so that a redirection to another kind of address is an error
        for prefix in ("https://", *(LOCAL if allow_local else ())):
            self.session.mount(prefix, HTTPAdapter())
        self.session.trust_env = not allow_local  # this machine is not behind a proxy

    def __call__(self, url: str, output_file: Any, pooch: Any) -> None:
        deadline = time.monotonic() + 10 * self.timeout
        # In a thread that can be abandoned: a server may send headers a byte at a time, each of which
        # restarts the socket's own time-out.
        received: list[bytes] = []
        failed: list[Exception] = []

        def work() -> None:
            try:
                self._receive(url, received.append, deadline)
            except HTTPError as error:  # urllib3's own, which is not an OSError
                failed.append(OSError(str(error)))
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(10 * self.timeout)
        if thread.is_alive() or time.monotonic() >= deadline:
            raise TimeoutError(f"the download took more than {10 * self.timeout:g} s")
        if failed:
            raise failed[0]
        Path(output_file).write_bytes(b"".join(received))

    def _receive(self, url: str, keep: Callable[[bytes], None], deadline: float) -> None:
        headers = {"User-Agent": "dcfw-studies", "Accept-Encoding": "identity"}
        with self.session.get(url, headers=headers, stream=True, timeout=self.timeout) as answer:
            answer.raise_for_status()
            length = answer.headers.get("Content-Length", "")
            if length.isascii() and length.isdigit() and int(length) > self.limit:
                raise ValueError(f"the file is too large: {length} bytes, at most {self.limit} are accepted")
            total = 0
            while time.monotonic() < deadline and (part := answer.raw.read1(65536)):
                total += len(part)
                if total > self.limit:
                    raise ValueError(f"the file is too large: more than {self.limit} bytes")
                keep(part)
