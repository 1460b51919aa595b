"""Bringing public data sets to the data folder.

Data come over HTTPS only and are trusted with nothing: archives are limited in size before and after
unpacking, only plain files with expected names are taken out of them (whatever folders they claim to be
in), each instance must have the known content, and files appear under their names only when complete.
The content is compared by the SHA-256 of its numbers written with single spaces, because copies of QAPLIB
differ in white space.
"""

from __future__ import annotations

import functools
import http.client
import io
import os
import re
import socket
import tarfile
import tempfile
import time
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from dcfw import data
from dcfw.qap.checksums import checksum, checksums
from dcfw_studies import checks

QAPLIB_MIRRORS = (
    (
        "https://qaplib.mgi.polymtl.ca/data.d/qapdata.tar.gz",
        "https://qaplib.mgi.polymtl.ca/soln.d/qapsoln.tar.gz",
    ),
    (
        "https://www.opt.math.tugraz.at/qaplib/data.d/qapdata.tar.gz",
        "https://www.opt.math.tugraz.at/qaplib/soln.d/qapsoln.tar.gz",
    ),
    (
        "https://coral.ise.lehigh.edu/wp-content/uploads/2014/07/qapdata.tar.gz",
        "https://coral.ise.lehigh.edu/wp-content/uploads/2014/07/qapsoln.tar.gz",
    ),
)
"""Addresses of the archives of instances and of solutions, in the order in which they are tried."""

MAX_ARCHIVE = 16 * 2**20
"""Bytes that an archive may have (QAPLIB's has about half a million)."""
MAX_UNPACKED = 128 * 2**20
"""Bytes that an archive may have when unpacked."""
MAX_FILE = 4 * 2**20
"""Bytes that one file may have (the largest, tai256c.dat, has 0.7 million)."""

Progress = Callable[[str, int, "int | None"], None]
"""Called as ``progress(address, bytes_so_far, bytes_in_all_or_None)``."""


class FetchError(OSError):
    """A data set could not be fetched; the message says why, and how to fetch it by hand.

    Examples
    --------
    >>> import tempfile
    >>> from dcfw_studies.fetch import FetchError, fetch_qaplib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     try:  # a server that is not there
    ...         fetch_qaplib(folder, url="http://localhost:1/", allow_local=True)
    ...     except FetchError as error:
    ...         print("no copy of QAPLIB could be downloaded" in str(error))
    True
    """


def fetch_qaplib(
    folder: str | os.PathLike[str] | None = None,
    *,
    url: str | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
    allow_local: bool = False,
) -> Path:
    """Download QAPLIB's instances and solutions and return the folder they are in.

    Parameters
    ----------
    folder : path, optional
        Where to put the files; by default ``qaplib`` in the data folder (``DCFW_DATA``, or else the
        cache folder), where :func:`dcfw.qap.load` looks for them.
    url : str, optional
        A copy of QAPLIB to use instead of the public ones: the address that ``data.d/qapdata.tar.gz``
        and ``soln.d/qapsoln.tar.gz`` are relative to.
    progress : callable, optional
        Called as ``progress(address, bytes_so_far, bytes_in_all_or_None)`` during downloads.
    timeout : float
        Seconds to wait for a server that sends nothing; a download may take ten times that in all.
    allow_local : bool
        Accept ``http://localhost`` and ``http://127.0.0.1`` as well (for tests); otherwise only HTTPS.

    Raises
    ------
    FetchError
        When no mirror answers or an instance's content is not the known one.  Files that were in order
        are kept.

    Examples
    --------
    >>> fetch_qaplib()  # doctest: +SKIP
    PosixPath('/home/me/.cache/dcfw/qaplib')
    """
    target = data.data_folder() / "qaplib" if folder is None else checks.path(folder, "folder").expanduser()
    timeout = checks.scalar(timeout, "timeout", low=0.0, high=1e6, open_low=True)
    if url is None:
        mirrors: tuple[tuple[str, str], ...] = QAPLIB_MIRRORS
    else:
        base = url.rstrip("/") + "/"
        mirrors = ((base + "data.d/qapdata.tar.gz", base + "soln.d/qapsoln.tar.gz"),)
    for addresses in mirrors:
        for address in addresses:
            _check_address(address, allow_local)

    failures = []
    for instances_at, solutions_at in mirrors:
        try:
            instances = _unpack(_download(instances_at, timeout, progress, allow_local), ".dat")
            solutions = _unpack(_download(solutions_at, timeout, progress, allow_local), ".sln")
            break
        except (OSError, ValueError, http.client.HTTPException) as error:
            failures.append(f"{instances_at}: {error}")
    else:
        raise FetchError(_by_hand("no copy of QAPLIB could be downloaded", failures, target))

    known = checksums()
    wrong = sorted(
        name for name, text in instances.items() if name in known and checksum(text) != known[name]
    )
    missing = sorted(known.keys() - instances.keys())
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in instances.items():
            if name in known and name not in wrong:
                write_file(target / f"{name}.dat", text)
        for name, text in solutions.items():
            if name in known and _is_solution(text):
                write_file(target / f"{name}.sln", text)
    except OSError as error:
        raise FetchError(f"{target} could not be written to ({error}); name another folder") from error
    if wrong or missing:
        problems = [f"{name}.dat: its content is not the known one" for name in wrong]
        problems += [f"{name}.dat: not in the archive" for name in missing]
        raise FetchError(_by_hand(f"the archive at {instances_at} is not in order", problems, target))
    return target


def _by_hand(what: str, details: list[str], target: Path) -> str:
    """Return an error message that ends with the manual way."""
    shown = details[:5] + ([f"and {len(details) - 5} more"] if len(details) > 5 else [])
    instances_at, solutions_at = QAPLIB_MIRRORS[0]
    return (
        f"{what} ({'; '.join(shown)}). By hand: download {instances_at} and {solutions_at} with a browser "
        f"and unpack their .dat and .sln files into {target}"
    )


def _check_address(address: str, allow_local: bool) -> None:
    """Refuse all but HTTPS, and plain HTTP to this machine if that is allowed."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme == "https" and parts.hostname:
        return
    if allow_local and parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1"):
        return
    raise ValueError(f"url must be an https:// address, got {address!r}")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirections only to addresses that would have been accepted in the first place."""

    def __init__(self, allow_local: bool) -> None:
        self.allow_local = allow_local

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        _check_address(newurl, self.allow_local)
        fp.close()  # or else all that comes with the redirection would be read, whatever its size
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Bytes(io.RawIOBase):
    """The bytes that come from a server, until the deadline.

    A socket's own timeout begins anew with each byte, and a line of a header, of which there may be many,
    ends when the server likes.
    """

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: float, timeout: float) -> None:
        self.raw = raw
        self.sock = sock
        self.deadline = deadline
        self.timeout = timeout

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        late = TimeoutError(f"the download took more than {10 * self.timeout:g} s")
        left = self.deadline - time.monotonic()
        if left <= 0.0:
            raise late
        self.sock.settimeout(min(self.timeout, left))
        try:
            return self.raw.readinto(buffer)
        except TimeoutError:
            raise (late if left < self.timeout else TimeoutError("timed out")) from None

    def close(self) -> None:
        self.raw.close()
        super().close()


class _Until(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    """Open addresses with connections from which nothing is read after a deadline."""

    def __init__(self, deadline: float, timeout: float) -> None:
        super().__init__()
        self.deadline = deadline
        self.timeout = timeout

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(functools.partial(self._connection, http.client.HTTPConnection), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(functools.partial(self._connection, http.client.HTTPSConnection), req)

    def _connection(self, kind: Any, host: str, timeout: float, **options: Any) -> Any:
        left = max(self.deadline - time.monotonic(), 1e-3)  # after many redirections
        connection = kind(host, timeout=min(timeout, left), **options)
        connection.response_class = self._response
        return connection

    def _response(self, sock: socket.socket, *args: Any, **options: Any) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(sock, *args, **options)
        raw = _Bytes(response.fp.detach(), sock, self.deadline, self.timeout)
        response.fp = io.BufferedReader(raw)
        return response


def _download(address: str, timeout: float, progress: Progress | None, allow_local: bool) -> bytes:
    """Return what is at ``address``, within the limits of size and time."""
    deadline = time.monotonic() + 10 * timeout
    handlers: list[urllib.request.BaseHandler] = [_Redirects(allow_local), _Until(deadline, timeout)]
    if allow_local:
        handlers.append(urllib.request.ProxyHandler({}))  # this machine is not behind a proxy
    opener = urllib.request.build_opener(*handlers)
    request = urllib.request.Request(address, headers={"User-Agent": "dcfw", "Accept-Encoding": "identity"})
    received = bytearray()
    with opener.open(request, timeout=timeout) as answer:
        length = answer.headers.get("Content-Length", "")
        total = int(length) if length.isascii() and length.isdigit() else None
        if total is not None and total > MAX_ARCHIVE:
            raise ValueError(f"the file is too large: {total} bytes, at most {MAX_ARCHIVE} are accepted")
        while part := answer.read1(65536):
            received += part
            if len(received) > MAX_ARCHIVE:
                raise ValueError(f"the file is too large: more than {MAX_ARCHIVE} bytes")
            if progress is not None:
                progress(address, len(received), total)
    if total is not None and len(received) != total:
        raise ValueError(f"the download broke off after {len(received)} of {total} bytes")
    return bytes(received)


def _unpack(archive: bytes, suffix: str) -> dict[str, bytes]:
    """Return {name: content} of the plain files with ``suffix`` in a .tar.gz; nothing is written."""
    unzip = zlib.decompressobj(wbits=31)
    try:
        unpacked = unzip.decompress(archive, MAX_UNPACKED + 1)
    except zlib.error as error:
        raise ValueError(f"the archive is damaged: {error}") from None
    if len(unpacked) > MAX_UNPACKED:
        raise ValueError(f"the archive is too large: more than {MAX_UNPACKED} bytes unpacked")
    if not unzip.eof:
        raise ValueError("the archive is cut short")

    def wanted(name: str) -> bool:
        path = PurePosixPath(name)
        if path.suffix != suffix or not re.fullmatch(r"[a-z0-9]+", path.stem):
            return False
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"the archive has a member outside its folder: {name!r}")
        return True

    # Only the last part of the path is used, so that no member can leave the folder.
    found = _tar_files(io.BytesIO(unpacked).read, wanted, MAX_FILE)
    files = {PurePosixPath(name).stem: content for name, content in found}
    if not files:
        raise ValueError(f"the archive has no {suffix} files")
    return files


_EMPTY = (
    tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE,
)  # fmt: skip
"""The kinds of members that have no content, whatever their header says."""


def _tar_files(
    read: Callable[[int], bytes], wanted: Callable[[str], bool], largest: int
) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the plain files of a tar archive whose names are wanted.

    Only the fixed part of a member's header is looked at, 512 bytes.  :class:`tarfile.TarFile` also reads the
    extended ones (of long names, of POSIX records), at whatever size they claim, and one that is made for it
    takes memory in proportion to the square of its size; here they are members that nobody wants.

    Parameters
    ----------
    read : callable
        ``read(n)`` returns the next n bytes of the archive, fewer only at its end.
    wanted : callable
        ``wanted(name)`` tells whether a file is to be yielded.
    largest : int
        Bytes that a file that is wanted may have.
    """
    while (block := read(tarfile.BLOCKSIZE)).strip(b"\0"):
        try:
            member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.TarError as error:
            raise ValueError(f"the archive is damaged: {error}") from None
        if member.size < 0:
            raise ValueError(f"the archive is damaged: {member.name!r} has {member.size} bytes")
        left = 0 if member.type in _EMPTY else -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        if member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and wanted(member.name):
            if member.size > largest:
                raise ValueError(
                    f"{PurePosixPath(member.name).name} is too large: {member.size} bytes, at most {largest} "
                    "are accepted"
                )
            content = read(member.size)
            if len(content) < member.size:
                raise ValueError("the archive is cut short")
            yield member.name, content
            left -= member.size
        while left > 0:
            skipped = len(read(min(left, 2**16)))
            if skipped == 0:
                raise ValueError("the archive is cut short")
            left -= skipped


def _is_solution(text: bytes) -> bool:
    """Tell whether ``text`` looks like a .sln file: numbers, one permutation of the size it states."""
    try:
        numbers = [int(token) for token in text.split()]
    except ValueError:
        return False
    entries = sorted(numbers[2:])
    return (
        len(numbers) > 2
        and len(entries) == numbers[0]
        and entries[0] in (0, 1)
        and entries == list(range(entries[0], entries[0] + len(entries)))
    )


def write_file(file: Path, content: bytes) -> None:
    """Write ``content`` to ``file`` so that the file is never seen half written."""
    file = checks.path(file, "file")
    if not isinstance(content, bytes | bytearray | memoryview):
        raise TypeError(f"content must be bytes, got {type(content).__name__}")
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        os.chmod(temporary, 0o644)  # mkstemp makes files that only their owner can read
        os.replace(temporary, file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
