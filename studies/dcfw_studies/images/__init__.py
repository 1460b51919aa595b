"""Labelled images to train networks on, and features of them.

``digits``     1797 handwritten digits of 8 x 8 pixels, from scikit-learn: no download
``cifar10``    60,000 photographs of 32 x 32 pixels in 10 classes: ``dcfw-studies fetch cifar10``, or the
               official archive unpacked into a folder ``cifar10`` of the data folder
``cifar100``   the same in 100 classes
"""

from __future__ import annotations

from dcfw_studies.images.backbones import features
from dcfw_studies.images.cifar import fetch_cifar
from dcfw_studies.images.labelled import NAMES, Images, load

__all__ = ["NAMES", "Images", "features", "fetch_cifar", "load"]
