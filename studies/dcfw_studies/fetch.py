"""QAPLIB for the data folder.

Archives are untrusted: their size is limited before and after unpacking, only plain files that the standard
library's safe filter accepts are extracted, under expected names, and each instance must have the known
content (:mod:`dcfw.qap.checksums`).
"""

from __future__ import annotations

import io
import itertools
import os
import re
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath

from dcfw import data
from dcfw.qap.checksums import checksum, checksums
from dcfw_studies import checks
from dcfw_studies.download import FetchError, check_address, download
from dcfw_studies.files import write_file

QAPLIB_MIRRORS = tuple(
    (f"{base}qapdata.tar.gz", f"{base.replace('data.d', 'soln.d')}qapsoln.tar.gz")
    for base in (
        "https://qaplib.mgi.polymtl.ca/data.d/",
        "https://www.opt.math.tugraz.at/qaplib/data.d/",
        "https://coral.ise.lehigh.edu/wp-content/uploads/2014/07/",
    )
)
"""Addresses of the archives of instances and of solutions, in the order in which they are tried."""

MAX_ARCHIVE = 16 * 2**20  # bytes that an archive may have (QAPLIB's has about half a million)
MAX_UNPACKED = 128 * 2**20  # bytes that an archive may have when unpacked
MAX_FILE = 4 * 2**20  # bytes that one file may have (the largest, tai256c.dat, has 0.7 million)


def fetch_qaplib(
    folder: str | os.PathLike[str] | None = None,
    *,
    url: str | None = None,
    timeout: float = 30.0,
    allow_local: bool = False,
) -> Path:
    """Download QAPLIB's instances and solutions and return the folder they are in.

    The default ``folder`` is ``qaplib`` in the data folder, where :func:`dcfw.qap.load` looks. ``url`` is a
    copy of QAPLIB, the address that ``data.d/qapdata.tar.gz`` and ``soln.d/qapsoln.tar.gz`` are relative to;
    ``timeout`` is that of :func:`~dcfw_studies.download.download`; ``allow_local`` accepts servers on this
    machine without HTTPS (for tests). Raises FetchError when no mirror answers or an instance's content is
    not the known one; valid files are kept.
    """
    target = data.data_folder() / "qaplib" if folder is None else checks.path(folder, "folder")
    timeout = checks.scalar(timeout, "timeout", low=0.0, high=1e6, open_low=True)
    mirrors = QAPLIB_MIRRORS
    if url is not None:
        base = url.rstrip("/")
        mirrors = ((f"{base}/data.d/qapdata.tar.gz", f"{base}/soln.d/qapsoln.tar.gz"),)
    for address in itertools.chain(*mirrors):
        check_address(address, allow_local=allow_local)

    failures = []
    with tempfile.TemporaryDirectory() as place:

        def members(address: str, suffix: str) -> dict[str, bytes]:
            file = download(address, Path(place), limit=MAX_ARCHIVE, timeout=timeout, allow_local=allow_local)
            content = file.read_bytes()
            file.unlink()  # pooch would take it for the next mirror's file
            return unpack(content, suffix)

        for instances_at, solutions_at in mirrors:
            try:
                instances, solutions = members(instances_at, ".dat"), members(solutions_at, ".sln")
                break
            except (OSError, ValueError) as error:
                failures.append(f"{instances_at}: {error}")
        else:
            raise FetchError(_by_hand("no copy of QAPLIB could be downloaded", failures, target))
    problems = _keep(instances, solutions, target)
    if problems:
        raise FetchError(_by_hand(f"the archive at {instances_at} is not in order", problems, target))
    return target


def _keep(instances: dict[str, bytes], solutions: dict[str, bytes], target: Path) -> list[str]:
    """Write the valid files, and return what is wrong with the others."""
    known = checksums()
    sound = {name: text for name, text in instances.items() if checksum(text) == known.get(name, "")}
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in sound.items():
            write_file(target / f"{name}.dat", text)
        for name, text in solutions.items():
            if name in known and _is_solution(text):
                write_file(target / f"{name}.sln", text)
    except OSError as error:
        raise FetchError(f"{target} could not be written to ({error}); name another folder") from error
    return [
        f"{name}.dat: {'its content is not the known one' if name in instances else 'not in the archive'}"
        for name in sorted(known.keys() - sound.keys())
    ]


def _by_hand(what: str, details: list[str], target: Path) -> str:
    shown = details[:5] + ([f"and {len(details) - 5} more"] if len(details) > 5 else [])
    instances_at, solutions_at = QAPLIB_MIRRORS[0]
    return (
        f"{what} ({'; '.join(shown)}). By hand: download {instances_at} and {solutions_at} with a browser "
        f"and unpack their .dat and .sln files into {target}"
    )


def unpack(archive: bytes, suffix: str) -> dict[str, bytes]:
    """Return {name: content} of the plain files with ``suffix`` in a .tar.gz; nothing is written.

    The standard library unpacks gzip without a limit, hence zlib.
    """
    unzip = zlib.decompressobj(wbits=31)
    try:
        unpacked = unzip.decompress(archive, MAX_UNPACKED + 1)
    except zlib.error as error:
        raise ValueError(f"the archive is damaged: {error}") from None
    if len(unpacked) > MAX_UNPACKED:
        raise ValueError(f"the archive is too large: more than {MAX_UNPACKED} bytes unpacked")
    if not unzip.eof:
        raise ValueError("the archive is cut short")
    files = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as members:
            for member in members:
                path = PurePosixPath(member.name)
                if not member.isreg() or path.suffix != suffix or not re.fullmatch(r"[a-z0-9]+", path.stem):
                    continue
                if path.is_absolute():
                    raise ValueError(f"the archive has a member outside its folder: {member.name!r}")
                tarfile.data_filter(member, "/nowhere")
                if not 0 <= member.size <= MAX_FILE:
                    limit = f"{member.size} bytes, at most {MAX_FILE} are accepted"
                    raise ValueError(f"{path.name} is too large or damaged: {limit}")
                file = members.extractfile(member)
                assert file is not None
                files[path.stem] = file.read()
    except tarfile.FilterError as error:
        raise ValueError(f"the archive has a member outside its folder: {error}") from None
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"the archive is damaged: {error}") from None
    if not files:
        raise ValueError(f"the archive has no {suffix} files")
    return files


def _is_solution(text: bytes) -> bool:
    """Return whether ``text`` is a .sln file: numbers, one permutation of the size it states."""
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
