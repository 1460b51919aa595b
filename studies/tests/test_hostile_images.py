"""Readers of image files, given damaged or hostile ones, return or raise their documented error."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from dcfw_studies.images import cifar
from hostile_files import fuzz, mutations, read_bounded

MB = 2**20
CIFAR_BINARY = b"".join(bytes([k]) + bytes((k + i) % 256 for i in range(3072)) for k in range(4))


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def binaries(folder: Path, content: bytes) -> Callable[[], Any]:
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        (folder / f"{name}.bin").write_bytes(content)
    return lambda: cifar.read_folder(folder, 10)


def arrays(folder: Path, content: bytes) -> Callable[[], Any]:
    images = np.zeros((2, 3, 32, 32), dtype=np.uint8)
    for name in cifar.ARRAYS:
        good = npy(images if name.endswith("images") else np.arange(2))
        (folder / f"{name}.npy").write_bytes(content if name == "train_images" else good)
    return lambda: cifar.read_folder(folder, 10)


READERS = {
    "CIFAR binary": (CIFAR_BINARY, binaries),
    "CIFAR arrays": (npy(np.zeros((2, 3, 32, 32), dtype=np.uint8)), arrays),
}


@pytest.mark.parametrize("name", READERS)
def test_a_file_is_read_and_a_mutated_one_is_read_or_refused_in_bounds(
    name: str, tmp_path_factory: Any
) -> None:
    content, prepare = READERS[name]
    folder = tmp_path_factory.mktemp("hostile")
    assert not isinstance(read_bounded(prepare(folder, content), memory=16 * MB), Exception)

    @fuzz
    @given(mutations(content))
    def check(changed: bytes) -> None:
        memory = 16 * MB + 200 * len(changed)
        read_bounded(prepare(folder, changed), memory=memory, names=folder.name)

    check()


def test_a_label_that_no_class_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"labels must be 0 to 9"):
        binaries(tmp_path, bytes([10]) + bytes(3072))()
