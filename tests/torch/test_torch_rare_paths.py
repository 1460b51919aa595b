"""Rare cases of the PyTorch optimizer: learning rates as tensors, groups without gradients, odd sets."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dcfw import functions  # noqa: E402
from dcfw.torch import DCFW, sliding_step  # noqa: E402
from dcfw.torch.regions import Interval  # noqa: E402

BOX = Interval(-1.0, 1.0)


def parameter(values, grad=None):
    p = torch.nn.Parameter(torch.tensor(values))
    p.grad = None if grad is None else torch.tensor(grad)
    return p


def test_a_learning_rate_may_be_a_tensor():
    x, g = torch.zeros(2, 3), torch.tensor([[3.0, -1.0, 0.5], [1.0, 2.0, -2.0]])
    number, tensor = (sliding_step(x, g, lr, BOX, steps=5).x for lr in (0.1, torch.tensor(0.1)))
    torch.testing.assert_close(tensor, number)
    with pytest.raises(ValueError, match=r"shape \(blocks, n\), got \(3,\) and \(2, 3\)"):
        sliding_step(x[0], g, 0.1, BOX, steps=5)


def test_a_group_without_gradients_stays_where_it_is():
    moved, still = parameter([0.5, -0.5], [1.0, 1.0]), parameter([0.25, 0.75])
    DCFW([{"params": [moved]}, {"params": [still]}], lr=0.1, constraint="linf").step()
    assert still.tolist() == [0.25, 0.75]
    assert moved.tolist() != [0.5, -0.5]


def test_a_single_tensor_in_place_of_a_list_is_refused_as_by_pytorch():
    with pytest.raises(TypeError, match="params argument given to the optimizer should be an iterable"):
        DCFW(parameter([0.5]), lr=0.1)


def test_all_of_space_has_an_infinite_fw_gap_and_a_known_projected_one():
    p = parameter([0.5, -0.5], [1.0, 2.0])
    optimiser = DCFW([p], lr=0.1, constraint=None, track_gap=True)
    optimiser.step()
    torch.testing.assert_close(p.detach(), torch.tensor([0.4, -0.7]))
    gaps = optimiser.last_step()
    assert gaps["fw_gap"] == float("inf")
    assert gaps["pgm_gap"] == pytest.approx(0.5 * 0.1 * 5.0, rel=1e-6)  # lr/2 ||g||^2


class Diamond:
    """The l1 ball as a user writes it: with a linear minimisation oracle and nothing else."""

    def lmo(self, G):
        k = G.abs().argmax()
        return torch.zeros_like(G).index_fill_(0, k, -float(torch.sign(G[k])))


def test_a_set_without_projection_is_stepped_in_and_not_projected_onto():
    p = parameter([0.5, 0.25], [1.0, -3.0])
    optimiser = DCFW([p], lr=0.1, constraint=Diamond(), solver="fw", inner_steps=200, inner_tol=1e-4)
    optimiser.project_()
    assert p.tolist() == [0.5, 0.25]
    optimiser.step()
    # The nearest point of the diamond to (0.4, 0.55), which is inside.
    torch.testing.assert_close(p.detach(), torch.tensor([0.4, 0.55]), atol=0.02, rtol=0.0)
    assert float(p.detach().abs().sum()) <= 1.0 + 1e-6


def test_observed_entries_of_a_tensor_have_the_loss_of_the_array():
    rows, cols, values = [0, 1, 1], [2, 0, 0], np.array([1.0, -1.0, 2.0])
    loss, same = (
        functions.FiniteSum.completion((2, 3), rows, cols, v) for v in (values, torch.from_numpy(values))
    )
    x = np.arange(6.0).reshape(2, 3)
    assert float(same.value(torch.from_numpy(x))) == pytest.approx(loss.value(x), rel=1e-14)
    np.testing.assert_allclose(same.grad(torch.from_numpy(x)).numpy(), loss.grad(x), rtol=1e-14)
