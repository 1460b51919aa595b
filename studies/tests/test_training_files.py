"""Rare cases of training: checkpoints that unpack too far, the preparation of images, half precision."""

import copy
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch")

from dcfw import tolerances  # noqa: E402
from dcfw_studies import training  # noqa: E402
from dcfw_studies.authors import AuthorsDCFW  # noqa: E402
from dcfw_studies.images.labelled import Images  # noqa: E402


@pytest.mark.parametrize("bomb", ["deflated", "overlapping"])
def test_a_training_checkpoint_that_would_unpack_to_more_than_its_size_is_refused(bomb, tmp_path):
    options = training.Settings(model="head", dataset="digits", epochs=1, images=64, batch=64)
    path = tmp_path / "run.pt"
    training.train(options, checkpoint=path)
    if bomb == "deflated":
        torch.save({**torch.load(path, weights_only=True), "more": torch.zeros(2**22)}, path)
    with zipfile.ZipFile(path) as whole:
        members = {info.filename: whole.read(info) for info in whole.infolist()}
    with zipfile.ZipFile(
        path, "w", zipfile.ZIP_DEFLATED if bomb == "deflated" else zipfile.ZIP_STORED
    ) as out:
        for name, content in members.items():
            out.writestr(name, content)
        if bomb == "overlapping":
            for i in range(20):
                again = copy.copy(max(out.filelist, key=lambda info: info.file_size))
                again.filename = f"more/{i}"
                out.filelist.append(again)
    with pytest.raises(ValueError, match=r"run\.pt is not a checkpoint of a training run"):
        training.train(options, checkpoint=path)


def test_a_training_checkpoint_whose_curves_have_different_lengths_is_refused(tmp_path):
    options = training.Settings(model="head", dataset="digits", epochs=1, images=64, batch=64)
    path = tmp_path / "run.pt"
    training.train(options, checkpoint=path)
    state = torch.load(path, weights_only=True)
    state["curves"]["train_loss"] *= 3
    torch.save(state, path)
    with pytest.raises(ValueError, match="damaged"):
        training.train(options, checkpoint=path)


@pytest.fixture
def images(monkeypatch):
    rng = np.random.default_rng(0)
    x, labels = rng.integers(0, 256, (9, 3, 32, 32), dtype=np.uint8), np.arange(9)
    monkeypatch.setattr(training, "load", lambda name: Images(x, labels, x[:2], labels[:2], 10))
    return x


def test_colours_are_centred_as_the_data_set_says(images):
    x, labels, test, _, classes = training.tensors(training.Settings(dataset="cifar10", model="cnn"))
    mean, deviation = (np.array(v["cifar10"])[:, None, None] for v in (training.MEANS, training.DEVIATIONS))
    np.testing.assert_allclose(x.numpy(), (images / 255.0 - mean) / deviation, rtol=1e-4, atol=1e-5)
    assert (len(test), classes, labels.tolist()) == (2, 10, list(range(9)))


def test_a_head_is_trained_on_the_features_of_the_network(images, monkeypatch):
    asked = []

    def features(part, network):
        asked.append((len(part), network))
        return np.full((len(part), 4), 2.0, dtype=np.float32)

    monkeypatch.setattr(training, "features", features)
    settings = training.Settings(dataset="cifar10", model="head", images=5)
    x, labels, test, *_ = training.tensors(settings)
    assert asked == [(5, settings.network), (2, settings.network)]
    assert (tuple(x.shape), tuple(test.shape), len(labels)) == ((5, 4), (2, 4), 5)


def test_a_last_batch_of_one_is_dropped():
    assert [len(rows) for rows in training._batches(9, 4)] == [4, 4]
    assert sorted(torch.cat(list(training._batches(10, 4))).tolist()) == list(range(10))


def test_half_precision_is_used_where_it_is_asked_for():
    x = torch.ones(2, 2)
    for precision in ("float32", "bfloat16"):
        with training._computing(training.Settings(precision=precision)):
            assert (x @ x).dtype == getattr(torch, precision)


# -- the optimizer of the authors ------------------------------------------------------------------------


def test_under_noise_the_papers_rule_takes_ever_more_inner_steps():
    torch.manual_seed(1)
    p = torch.nn.Parameter(torch.zeros(300))
    optimizer = AuthorsDCFW([p], c=1.0, inner_steps=500)
    taken = []
    for _ in range(60):
        p.grad = torch.randn(300) * float(torch.rand(()) + 0.05)
        optimizer.step()
        taken.append(optimizer.last_step()["inner_steps"])
    assert sum(taken[-10:]) > 2.0 * sum(taken[:10])
    assert float(p.detach().abs().max()) <= 1.0


def test_the_papers_tolerance_is_the_cores_published_rule():
    rule, eps = tolerances.Adaptive(0.9, "published"), None
    p = torch.nn.Parameter(torch.zeros(20, dtype=torch.float64))
    optimizer = AuthorsDCFW([p], c=1.0, inner_steps=1)
    for scale in (1.0, 3.0, 0.5, 0.8, 0.1, 2.0):
        x, g = p.detach().clone(), scale * torch.randn(20, dtype=torch.float64)
        p.grad = g
        optimizer.step()
        eps = rule.next(eps, float((g * x).sum() + g.abs().sum()))
        assert optimizer.state[p]["tolerance"] == pytest.approx(eps, rel=1e-12)


def test_the_published_gap_is_the_product_of_induced_norms():
    g, c, L = torch.tensor([[3.0, -1.0, 0.5], [1.0, 2.0, -2.0]]), 1.0, 10.0
    p = torch.nn.Parameter(torch.zeros(2, 3))
    p.grad = g
    AuthorsDCFW([p], c=c, L=L, inner_steps=1, published=True).step()
    E = c * g.sign()
    one, infinity = (np.linalg.norm(M.numpy(), order) for M, order in ((g / L, 1), (E, np.inf)))
    eta = min(one * infinity / float((E * E).sum()), 1.0)
    torch.testing.assert_close(p.detach(), -eta * E)


@pytest.mark.parametrize("tolerance", [-1.0, float("nan"), "0.1", torch.zeros(1).expand(2**40)])
def test_the_authors_optimizer_takes_checked_tolerances_and_no_options_from_a_file(tolerance):
    p = torch.nn.Parameter(torch.zeros(3))
    optimizer = AuthorsDCFW([p], c=1.0)
    saved = {"state": {0: {"tolerance": 0.5}}, "param_groups": [{"inner_steps": 10**12, "params": [0]}]}
    optimizer.load_state_dict(saved)
    assert (optimizer.state[p]["tolerance"], optimizer.param_groups[0]["inner_steps"]) == (0.5, 10_000)
    with pytest.raises(ValueError, match="must not be negative"):
        optimizer.load_state_dict({**saved, "state": {0: {"tolerance": tolerance}}})
