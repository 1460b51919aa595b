"""CIFAR-10 and CIFAR-100: fetching and reading.

The images come as the official binary archives, whose SHA-256 is known: records of a label and 3072 bytes.
(The archives for Python are pickles, which can run any code, and are not read.)  Four ``.npy`` files, which
an earlier version wrote, are read too.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from dcfw import data
from dcfw.npy import mapped
from dcfw_studies import checks
from dcfw_studies.download import FetchError, download
from dcfw_studies.files import write_file
from dcfw_studies.images.labelled import Images

_HOME = "https://www.cs.toronto.edu/~kriz/"
ARCHIVES = {
    "cifar10": (
        f"{_HOME}cifar-10-binary.tar.gz",
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ),
    "cifar100": (
        f"{_HOME}cifar-100-binary.tar.gz",
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
    ),
}
"""Name -> where the official binary archive is, and its SHA-256."""

OFFICIAL = f"{_HOME}cifar.html"
MAX_ARCHIVE, MAX_BYTES = 256 * 2**20, 512 * 2**20  # CIFAR's largest file has 155 million bytes
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
PIXELS = 3 * 32 * 32


def fetch_cifar(
    name: str = "cifar10",
    folder: str | os.PathLike[str] | None = None,
    *,
    timeout: float = 120.0,
    allow_local: bool = False,
) -> Path:
    """Download CIFAR-10 or CIFAR-100 and return the folder of its binary files.

    The parameters are those of :func:`~dcfw_studies.fetch.fetch_qaplib`.  Raises FetchError when the archive
    is not available or not the known one; the message says how to get it by hand.
    """
    address, known = ARCHIVES[checks.choice(name, "name", ARCHIVES)]
    target = data.data_folder() / name if folder is None else checks.path(folder, "folder")
    try:
        with tempfile.TemporaryDirectory() as place:
            options: dict[str, Any] = {"timeout": timeout, "known_hash": known, "allow_local": allow_local}
            file = download(address, Path(place), limit=MAX_ARCHIVE, **options)
            target.mkdir(parents=True, exist_ok=True)
            _unpack(file, target)
    except (OSError, ValueError, tarfile.TarError) as error:
        raise FetchError(
            f"{name} could not be fetched ({error}). By hand: download the binary version from {OFFICIAL} "
            f"and unpack its .bin files into {target}"
        ) from error
    return target


def _unpack(file: Path, target: Path) -> None:
    with tarfile.open(file, "r:gz") as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            if member.isreg() and name.endswith(".bin"):
                content = archive.extractfile(tarfile.data_filter(member, str(target)))
                assert content is not None
                write_file(target / name, content.read())


def read_folder(folder: Path, classes: int) -> Images:
    """Return the images in ``folder``: arrays as fetched, or the files of an official binary archive."""
    if all((folder / f"{name}.npy").exists() for name in ARRAYS):
        return _checked([mapped(folder / f"{name}.npy") for name in ARRAYS], classes, folder)
    return _checked(_official(folder, classes), classes, folder)


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
        f"unpack it there; or run `dcfw-studies fetch cifar{classes}`"
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
