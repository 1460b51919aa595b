"""Words that stream through in blocks, from memory maps, and on a cluster that loses a worker."""

import os
import signal
import time
import tracemalloc
from functools import partial
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from dcfw.align import MaskedLeastSquares, align, observations, products


def planted(d=8, n=600, rate=0.5, seed=0):
    rng = np.random.default_rng(seed)
    E1 = rng.standard_normal((d, n))
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return E1, np.where(rng.random((d, n)) < rate, Q @ E1, np.nan), Q


def assert_same(f, g, seed=0):
    X = np.random.default_rng(seed).standard_normal(f.shape)
    assert (f.n, f.observed) == (g.n, g.observed)
    assert f.value(X) == pytest.approx(g.value(X), rel=1e-12)
    np.testing.assert_allclose(f.grad(X), g.grad(X), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(f.source, g.source, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("width", [1, 7, 600])
def test_blocks_give_the_same_as_everything_at_once(width):
    E1, Y, Q = planted()
    blocks = ((E1[:, k : k + width], Y[:, k : k + width]) for k in range(0, 600, width))
    f = MaskedLeastSquares.from_blocks(blocks)
    assert_same(f, MaskedLeastSquares(E1, Y, product="dense"))
    np.testing.assert_allclose(align(f, tol=1e-9).rotation, Q, atol=1e-5)


def test_full_and_partial_blocks_mix():
    E1, Y, _ = planted()
    mask = ~np.isnan(Y)
    mask[:, :200], mask[:, 400:500] = True, False  # seen entirely, in part, not at all
    Y = np.nan_to_num(Y)
    order = [(200, 400), (0, 200), (400, 600), (0, 200)]
    blocks = [(E1[:, a:b], Y[:, a:b], mask[:, a:b]) for a, b in order]
    whole = tuple(np.concatenate(parts, axis=1) for parts in zip(*blocks, strict=True))
    for k in range(4):  # whichever comes first
        assert_same(MaskedLeastSquares.from_blocks(blocks[k:] + blocks[:k]), MaskedLeastSquares(*whole))


def test_one_matrix_stands_for_all_rows_where_every_word_is_seen_entirely():
    E1, Y, _ = planted(rate=1.0)
    f = MaskedLeastSquares.from_blocks([(E1[:, :100], Y[:, :100]), (E1[:, 100:], Y[:, 100:])])
    assert f._operator.grams.shape[0] == 1
    assert_same(f, MaskedLeastSquares(E1, Y, product="observed"))


@pytest.mark.parametrize(
    ("blocks", "error", "message"),
    [
        ([], ValueError, "blocks must not be empty"),
        ([np.ones((2, 2))], TypeError, "each block must be"),
        ([(np.ones((2, 3)), np.ones((2, 3))), (np.ones((3, 3)), np.ones((2, 3)))], ValueError, "same dim"),
        ([(np.ones((2, 3)), np.full((2, 3), np.nan))], ValueError, "Y must have observed entries"),
    ],
)
def test_wrong_blocks_are_refused(blocks, error, message):
    with pytest.raises(error, match=message):
        MaskedLeastSquares.from_blocks(blocks)


@pytest.mark.parametrize("product", ["gram", "dense"])
def test_memory_maps_stream_in_little_memory(tmp_path, monkeypatch, product):
    d, n = 8, 200_000  # 12.8 MB each
    rng = np.random.default_rng(0)
    maps = {}
    for name in ("E1", "Y"):
        maps[name] = np.lib.format.open_memmap(tmp_path / f"{name}.npy", "w+", np.float64, (d, n))
        maps[name][:] = rng.standard_normal((d, n))
    maps["Y"][rng.random((d, n)) < 0.5] = np.nan
    X = rng.standard_normal((d, d))
    expected = MaskedLeastSquares(np.asarray(maps["E1"]), np.asarray(maps["Y"])).grad(X)
    monkeypatch.setattr(observations, "BLOCK_BYTES", 2**20)
    monkeypatch.setattr(products, "HOLD_BYTES", 2**20)
    tracemalloc.start()
    grad = MaskedLeastSquares(maps["E1"], maps["Y"], product=product).grad(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(grad, expected, atol=1e-12)
    assert peak < 8 * 2**20


# -- on a cluster -----------------------------------------------------------------------------------------


def read_block(folder, k, width, pause=0.0):
    """Read some words of two .npy files, as a worker would from its own disk; leave a note of it."""
    E1, Y = (np.load(Path(folder) / name, mmap_mode="r") for name in ("E1.npy", "Y.npy"))
    with open(Path(folder) / "notes", "a", encoding="ascii") as notes:
        notes.write(f"{os.getpid()}\n")
    time.sleep(pause)
    return np.asarray(E1[:, k : k + width]), np.asarray(Y[:, k : k + width])


def readers(of):
    return (int(line) for line in (of / "notes").read_text(encoding="ascii").split())


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    E1, Y, _ = planted(d=6, n=400)
    np.save(folder / "E1.npy", E1)
    np.save(folder / "Y.npy", Y)
    return folder, MaskedLeastSquares(E1, Y)


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="needs dask.distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_cluster_gives_the_same_sums(stored, client):
    folder, expected = stored
    blocks = [partial(read_block, str(folder), k, 50) for k in range(0, 400, 50)]
    assert_same(MaskedLeastSquares.from_blocks(blocks, client=client), expected)


def test_a_cluster_that_loses_a_worker_in_the_middle_gives_the_same_sums(stored, client):
    folder, expected = stored
    blocks = [partial(read_block, str(folder), k, 20, 0.15) for k in range(0, 400, 20)]
    (folder / "notes").write_text("", encoding="ascii")
    undisturbed = MaskedLeastSquares.from_blocks(blocks, client=client)
    (folder / "notes").write_text("", encoding="ascii")
    killed = []

    def kill_one_worker():
        while len(list(readers(folder))) < 6:
            time.sleep(0.02)
        killed.extend(list(readers(folder))[-1:])
        os.kill(killed[0], signal.SIGKILL)

    thread = Thread(target=kill_one_worker)
    thread.start()
    f = MaskedLeastSquares.from_blocks(blocks, client=client)
    thread.join()
    assert killed
    assert len(list(readers(folder))) > len(blocks)  # some were read again
    assert_same(f, expected)
    X = np.ones(f.shape)
    np.testing.assert_array_equal(f.grad(X), undisturbed.grad(X))  # to the last bit
