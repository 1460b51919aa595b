"""Training one network with one optimizer: the row of the networks study, and ``dcfw-studies train``.

The networks are the paper's: a convolutional one, and a linear head with dropout on frozen features.  Every
weight tensor is held in the l_inf ball of radius c.  The optimizers:

``dcfw``        Algorithm 1 with the sliding split: Frank-Wolfe steps on the surrogate until the gap is a
                tenth of the step's first one, at most 20
``dcfw-exact``  the same surrogate solved in closed form: a step of SGD, then clipping
``dcfw-paper``  Algorithm 1 with the paper's only-decreasing tolerance and its cap of inner steps
``dcfw-authors``  the same with the authors' product of norms in place of the gap: what their code runs
``fw``          Frank-Wolfe with the open-loop step 2/(t+1): the paper's baseline
``sfw``         stochastic Frank-Wolfe whose steps have the length of SGD's (Pokutta, Spiegel, Zimmer 2020)
``sgd``         SGD with the learning rate 1/L, without constraint
``adamw``       AdamW with its usual settings, without constraint

Randomness (initial weights, the order of the images, dropout) comes from the seed alone, through a generator
state that is restored afterwards.  A checkpoint is written after each epoch; a run that continues from it
ends with the same weights, bit for bit.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dcfw.checkpoints.file import locked
from dcfw_studies import checks
from dcfw_studies.files import write_file
from dcfw_studies.images import NAMES, features, load

CONSTRAINED = ("dcfw", "dcfw-exact", "dcfw-paper", "dcfw-authors", "fw", "sfw")
METHODS = (*CONSTRAINED, "sgd", "adamw")
CAPS = {"cnn": 10_000, "head": 2_000}  # the models, and the paper's caps of inner steps
MEANS = {"cifar10": (0.4914, 0.4822, 0.4465), "cifar100": (0.5071, 0.4865, 0.4409)}
DEVIATIONS = {"cifar10": (0.2470, 0.2435, 0.2616), "cifar100": (0.2673, 0.2564, 0.2762)}
CURVES = (
    "train_loss", "train_accuracy", "test_loss", "test_accuracy", "inner_steps", "at_bound", "largest",
    "seconds",
)  # fmt: skip
"""The quantities recorded for each epoch.

Training figures are means over the epoch, as the network saw the batches (with dropout, while it changed);
``inner_steps`` is the mean number of inner steps of a tensor, ``at_bound`` the share of weights at the
bound, ``largest`` the largest weight, ``seconds`` the processor time without the test.
"""


@dataclass(frozen=True)
class Settings:
    """The settings of a run on "digits", "cifar10" or "cifar100" with one of the optimizers above.

    The model "cnn" is the convolutional network, "head" dropout and a linear layer on features of the images
    by ``network`` (digits: pixels). c is the radius of the l_inf ball, L the constant of the surrogate; 1/L
    is the learning rate of DC-FW, SFW and SGD. ``images`` trains on the first ones only. With the precision
    "bfloat16" layers compute in that type; weights and steps stay in float32.
    """

    dataset: str = "digits"
    model: str = "cnn"
    method: str = "dcfw"
    c: float = 10.0
    L: float = 10.0
    epochs: int = 10
    batch: int = 256
    seed: int = 0
    images: int | None = None
    precision: str = "float32"
    network: str = "efficientnet-lite0"

    def __post_init__(self) -> None:
        options = {"dataset": NAMES, "model": CAPS, "method": METHODS, "precision": ("float32", "bfloat16")}
        for name, known in options.items():
            checks.choice(getattr(self, name), name, known)
        for name in ("c", "L"):
            checks.scalar(getattr(self, name), name, low=0.0, open_low=True)
        for name, low in (("epochs", 1), ("batch", 2), ("seed", 0)):
            checks.integer(getattr(self, name), name, low=low)
        if self.images is not None:
            checks.integer(self.images, "images", low=2)

    @property
    def fingerprint(self) -> str:
        """A hash of everything that decides the weights after a given epoch."""
        kept = {key: value for key, value in asdict(self).items() if key != "epochs"}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


@dataclass
class Trained:
    """The outcome of a run: curves (one entry for each epoch), the model, its size and the steps taken."""

    settings: Settings
    curves: dict[str, list[float]]
    model: Any = field(repr=False)
    parameters: int = 0
    steps: int = 0


Progress = Callable[[int, int, Mapping[str, float]], object]
"""``progress(steps_done, steps_in_all, values of the last epoch)``."""


def train(
    settings: Settings, *, checkpoint: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> Trained:
    """Train a network and return its curves.

    The state is written to ``checkpoint`` after each epoch, and training continues from an existing file;
    meanwhile ``checkpoint + ".lock"`` excludes other runs. ``progress`` is called after each step.
    """
    import torch

    x, labels, x_test, labels_test, classes = tensors(settings)
    with contextlib.ExitStack() as held, torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = network(settings, tuple(x.shape[1:]), classes)
        if settings.model == "cnn":
            model = model.to(memory_format=torch.channels_last)
        optimizer = make_optimizer(settings, model)
        run = Trained(settings, {name: [] for name in CURVES}, model)
        run.parameters = sum(p.numel() for p in model.parameters())
        if checkpoint is not None:
            file = Path(checkpoint)
            _resume(file, run, optimizer)
            if len(run.curves["seconds"]) < settings.epochs:  # else the file is only read
                file.parent.mkdir(parents=True, exist_ok=True)
                held.enter_context(locked(file))
                _resume(file, run, optimizer)  # another run may have written it until now
        per_epoch = len(x) // settings.batch + (len(x) % settings.batch > 1)  # see _batches
        run.steps = per_epoch * len(run.curves["seconds"])
        while len(run.curves["seconds"]) < settings.epochs:
            found = _epoch(settings, run, optimizer, x, labels, progress, per_epoch)
            found |= _test(settings, model, x_test, labels_test)
            for name in CURVES:
                run.curves[name].append(float(found[name]))
            if checkpoint is not None:
                _save(file, run, optimizer)
    return run


def tensors(settings: Settings) -> tuple[Any, Any, Any, Any, int]:
    """Return the inputs and labels of training and test as tensors, and the number of classes."""
    import torch

    images = load(settings.dataset)
    inputs = []
    for part in (images.train[: settings.images], images.test):
        if settings.model == "head" and settings.dataset != "digits":
            inputs.append(torch.from_numpy(features(part, network=settings.network)))
            continue
        x = torch.from_numpy(np.array(part)).float() / 255.0
        if settings.dataset in MEANS:
            mean, deviation = (torch.tensor(v[settings.dataset])[:, None, None] for v in (MEANS, DEVIATIONS))
            x = (x - mean) / deviation
        # Channels last is the layout that convolutions are fastest in.
        x = x.flatten(1) if settings.model == "head" else x.to(memory_format=torch.channels_last)
        inputs.append(x)
    parts = images.train_labels[: settings.images], images.test_labels
    labels = [torch.from_numpy(np.array(part)).long() for part in parts]
    return inputs[0], labels[0], inputs[1], labels[1], images.classes


def network(settings: Settings, shape: tuple[int, ...], classes: int) -> Any:
    """Return the paper's network for inputs of a shape, with PyTorch's default initial weights."""
    from torch import nn

    if settings.model == "head":
        return nn.Sequential(nn.Dropout(0.2), nn.Linear(shape[0], classes))
    channels, size, _ = shape
    layers: list[Any] = []
    for width in (32, 64, 128)[: 3 if settings.dataset == "cifar100" else 2]:
        for before in (channels, width):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(width)]
        layers += [nn.MaxPool2d(2), nn.Dropout(0.01)]
        channels, size = width, size // 2
    before = channels * size * size
    layers.append(nn.Flatten())
    for width in (512, 1024):
        layers += [nn.Linear(before, width), nn.ReLU(), nn.BatchNorm1d(width), nn.Dropout(0.01)]
        before = width
    return nn.Sequential(*layers, nn.Linear(before, classes))


def make_optimizer(settings: Settings, model: Any) -> Any:
    """Return the optimizer of a method, with all tensors in the l_inf ball where there is a constraint."""
    import torch

    from dcfw.torch import DCFW, SFW
    from dcfw_studies.authors import AuthorsDCFW, AuthorsFW

    c, L, cap = settings.c, settings.L, CAPS[settings.model]
    lr, weights = 1.0 / L, list(model.parameters())
    makers: dict[str, Callable[[], Any]] = {
        "dcfw": lambda: DCFW(weights, lr, radius=c, solver="fw", track_gap=True),
        "dcfw-exact": lambda: DCFW(weights, lr, radius=c, solver="exact"),
        "dcfw-paper": lambda: AuthorsDCFW(weights, c, L=L, inner_steps=cap),
        "dcfw-authors": lambda: AuthorsDCFW(weights, c, L=L, inner_steps=cap, published=True),
        "fw": lambda: AuthorsFW(weights, c),
        "sfw": lambda: SFW(weights, lr, radius=c, momentum=0.9, rescale="gradient"),
        "sgd": lambda: torch.optim.SGD(weights, lr),
        "adamw": lambda: torch.optim.AdamW(weights),
    }
    return makers[settings.method]()


def _computing(settings: Settings) -> Any:
    import torch

    if settings.precision == "bfloat16":
        return torch.autocast("cpu", dtype=torch.bfloat16)
    return contextlib.nullcontext()


def _epoch(
    settings: Settings, run: Trained, optimizer: Any, x: Any, labels: Any, progress: Any, per_epoch: int
) -> dict[str, float]:
    import torch

    loss_sum = correct = inner = 0.0
    counted = settings.method in ("dcfw", "dcfw-paper", "dcfw-authors")
    begun, batches, seen = time.process_time(), 0, 0
    run.model.train()
    for rows in _batches(len(x), settings.batch):
        optimizer.zero_grad()
        with _computing(settings):
            scores = run.model(x[rows])
            loss = torch.nn.functional.cross_entropy(scores, labels[rows])
        loss.backward()
        optimizer.step()
        loss_sum += float(loss.detach()) * len(rows)
        correct += float((scores.detach().argmax(1) == labels[rows]).sum())
        inner += optimizer.last_step()["inner_steps"] if counted else 0.0
        run.steps, batches, seen = run.steps + 1, batches + 1, seen + len(rows)
        if progress is not None:
            latest = {name: curve[-1] for name, curve in run.curves.items() if curve}
            progress(run.steps, per_epoch * settings.epochs, latest)
    return {
        "train_loss": loss_sum / seen,
        "train_accuracy": correct / seen,
        "inner_steps": inner / batches if counted else math.nan,
        "seconds": time.process_time() - begun,
    }


def _batches(n: int, batch: int) -> Iterator[Any]:
    """Yield the rows of each batch; a last batch of one is dropped (normalisation needs two)."""
    import torch

    order = torch.randperm(n)
    for start in range(0, n, batch):
        if n - start > 1:
            yield order[start : start + batch]


def _test(settings: Settings, model: Any, x: Any, labels: Any) -> dict[str, float]:
    import torch

    model.eval()
    loss = correct = 0.0
    with torch.inference_mode(), _computing(settings):
        for start in range(0, len(x), 1000):
            scores, y = model(x[start : start + 1000]), labels[start : start + 1000]
            loss += float(torch.nn.functional.cross_entropy(scores.float(), y, reduction="sum"))
            correct += float((scores.argmax(1) == y).sum())
    sizes = torch.cat([p.detach().abs().flatten() for p in model.parameters()])
    share = float((sizes >= settings.c * (1.0 - 1e-6)).double().mean())
    at = share if settings.method in CONSTRAINED else math.nan
    found = {"test_loss": loss / len(x), "test_accuracy": correct / len(x)}
    return found | {"at_bound": at, "largest": float(sizes.max())}


def _save(file: Path, run: Trained, optimizer: Any) -> None:
    import torch

    buffer = io.BytesIO()
    state = {
        "fingerprint": run.settings.fingerprint,
        "model": run.model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": torch.get_rng_state(),
        "curves": run.curves,
    }
    torch.save(state, buffer)
    write_file(file, buffer.getvalue())


def _resume(file: Path, run: Trained, optimizer: Any) -> None:
    """Put the run into the state of a checkpoint, if there is one."""
    import torch

    if not file.exists():
        return
    try:
        _refuse_bombs(file)
        state = torch.load(file, map_location="cpu", weights_only=True)
        fingerprint = state["fingerprint"]
    except (MemoryError, PermissionError):  # which say nothing about the file
        raise
    except Exception as error:  # a damaged file can raise nearly anything
        raise ValueError(f"{file} is not a checkpoint of a training run ({error}); remove it") from error
    if fingerprint != run.settings.fingerprint:
        raise ValueError(f"{file} is the checkpoint of a run with other settings; name another file")
    try:
        curves = {name: [float(value) for value in state["curves"][name]] for name in CURVES}
        if len({len(curve) for curve in curves.values()}) != 1:
            raise ValueError("its curves have different lengths")
        run.model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
    except MemoryError:
        raise
    except Exception as error:  # the same
        raise ValueError(f"{file} is a damaged checkpoint of this run ({error}); remove it") from error
    run.curves = curves


def _refuse_bombs(file: Path) -> None:
    """Raise an error if a checkpoint would unpack to more than its own size."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("it has compressed members, which PyTorch does not write")
    if sum(member.file_size for member in members) > file.stat().st_size:
        raise ValueError("its members overlap")
