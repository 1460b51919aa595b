"""Labelled images as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dcfw_studies import checks

NAMES = ("digits", "cifar10", "cifar100")


class Images(NamedTuple):
    """Images as bytes, n x channels x height x width, and their classes."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    classes: int


def load(name: str) -> Images:
    """Return the training and test images called ``name``: "digits", "cifar10" or "cifar100".

    >>> images = load("digits")
    >>> images.train.shape, images.test.shape, images.classes
    ((1437, 1, 8, 8), (360, 1, 8, 8), 10)
    """
    name = checks.choice(name, "name", NAMES)
    if name == "digits":
        return _digits()
    from dcfw.data import find
    from dcfw_studies.images.cifar import read_folder

    return read_folder(find(name), 10 if name == "cifar10" else 100)


def _digits() -> Images:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError('the digits come with scikit-learn: pip install "dcfw[sklearn]"') from error
    bunch = load_digits()
    # Entries are 0 to 16; the file is ordered by writer, so that the test has other writers.
    images = np.minimum(bunch.images * 16.0, 255.0).astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    return Images(images[:1437], labels[:1437], images[1437:], labels[1437:], 10)
