"""Labelled images: files are read exactly, and damaged ones are refused."""

import functools
import hashlib
import http.server
import tarfile
import threading
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
def test_arrays_that_are_not_labelled_images_are_refused(tmp_path, name, array, message):
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


# -- fetching, from a local server -------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path, pictures, monkeypatch):
    """An archive like the official one on a local server, with its checksum in place of the real one."""
    site, inside = tmp_path / "www", tmp_path / "inside"
    site.mkdir()
    inside.mkdir()
    write_binary(inside, *pictures, 10)
    (inside / "batches.meta.txt").write_text("airplane\n")
    with tarfile.open(site / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(inside, "cifar-10-batches-bin")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(site))
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        known = hashlib.sha256((site / "cifar-10-binary.tar.gz").read_bytes()).hexdigest()
        address = f"http://127.0.0.1:{server.server_port}/cifar-10-binary.tar.gz"
        monkeypatch.setitem(cifar.ARCHIVES, "cifar10", (address, known))
        yield site / "cifar-10-binary.tar.gz"
        server.shutdown()
        thread.join()


def test_fetched_images_are_those_of_the_archive(tmp_path, served, pictures):
    folder = images.fetch_cifar("cifar10", tmp_path / "out", allow_local=True)
    found = cifar.read_folder(folder, 10)
    np.testing.assert_array_equal(found.test, pictures[0])
    assert sorted(path.name for path in folder.iterdir())[-1] == "test_batch.bin"
    assert not (folder / "batches.meta.txt").exists()


def test_an_archive_with_another_checksum_is_refused_and_nothing_is_written(tmp_path, served):
    served.write_bytes(served.read_bytes()[:-1] + b"x")
    with pytest.raises(fetch.FetchError, match=r"hash.*By hand: .*cs\.toronto\.edu"):
        images.fetch_cifar("cifar10", tmp_path / "out", allow_local=True)
    assert not (tmp_path / "out").exists()


def test_an_archive_that_is_too_large_is_refused(tmp_path, served, monkeypatch):
    monkeypatch.setattr(cifar, "MAX_ARCHIVE", 100)
    with pytest.raises(fetch.FetchError, match="too large"):
        images.fetch_cifar("cifar10", tmp_path / "out", allow_local=True)


def test_the_official_archives_come_by_https_with_a_sha256():
    for address, known in cifar.ARCHIVES.values():
        assert address.startswith("https://")
        assert len(known) == 64


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
