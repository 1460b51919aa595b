"""Roles: every weight of the usual networks gets the set that belongs to it, and a table says which."""

import pytest

torch = pytest.importorskip("torch", reason="dcfw.torch needs PyTorch")

from torch import nn  # noqa: E402

from dcfw.torch import DCFW, SFW, Scion, norms, param_groups  # noqa: E402
from dcfw.torch.base import region_of  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc, self.out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)  # names that heads have elsewhere

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        return x + self.out(self.fc(self.proj(nn.functional.scaled_dot_product_attention(q, k, v))).relu())


class GPT(nn.Module):
    def __init__(self, tied=False, d=8):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(11, d), nn.Embedding(6, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(2))
        self.lm_head = nn.Linear(d, 11, bias=False)
        if tied:
            self.lm_head.weight = self.wte.weight

    def forward(self):
        h = self.wte(torch.arange(6)) + self.wpe.weight
        for block in self.blocks:
            h = block(h)
        return self.lm_head(h)


class ViT(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 4, stride=4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, d))
        self.pos_embed = nn.Parameter(0.1 * torch.randn(1, 5, d))
        self.attention = nn.MultiheadAttention(d, 2, batch_first=True)
        self.experts = nn.Parameter(0.1 * torch.randn(3, 2 * d, d))
        self.head = nn.Linear(2 * d, 4)

    def forward(self):
        x = self.patch(torch.ones(1, 3, 8, 8)).flatten(2).mT
        x = torch.cat((self.cls_token, x), 1) + self.pos_embed
        x = x + self.attention(x, x, x)[0]
        return self.head((x @ self.experts.mT).mean((0, 1)))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, groups=8, bias=False)
        self.fc = nn.Linear(8, 4)

    def forward(self):
        return self.fc(self.depthwise(self.bn1(self.conv1(torch.randn(2, 3, 8, 8)))).mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.lstm, self.gru = nn.Embedding(9, 5), nn.LSTM(5, 6), nn.GRU(6, 4)
        self.classifier = nn.Linear(4, 3)

    def forward(self):
        return self.classifier(self.gru(self.lstm(self.table(torch.arange(7)))[0])[0])


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def forward(self):
        return self.net(torch.randn(1, 4, 8), torch.randn(1, 3, 8))


MODELS = {
    "transformer": (Translator, {"in_proj_weight": ("hidden", 3), "linear1.weight": ("hidden", 1)}),
    "gpt": (
        GPT,
        {
            "wte.weight": ("embedding", 1), "wpe.weight": ("embedding", 1), "qkv.weight": ("hidden", 3),
            "fc.weight": ("hidden", 1), "out.weight": ("hidden", 1), "lm_head.weight": ("head", 1),
        },
    ),
    "tied gpt": (lambda: GPT(tied=True), {"wte.weight": ("tied", 1)}),
    "vit": (
        ViT,
        {
            "patch.weight": ("conv", 1), "cls_token": ("embedding", 1), "pos_embed": ("embedding", 1),
            "in_proj_weight": ("hidden", 3), "experts": ("hidden", 3), "head.weight": ("head", 1),
        },
    ),
    "resnet": (
        ResNet,
        {"conv1.weight": ("conv", 1), "depthwise.weight": ("depthwise", 1), "fc.weight": ("head", 1)},
    ),
    "lstm": (
        Recurrent,
        {"weight_ih_l0": ("hidden", 4), "weight_hh_l0": ("hidden", 4), "classifier.weight": ("head", 1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_has_one_role_and_the_expected_one(name):
    make, expected = MODELS[name]
    model = make()
    groups = param_groups(model)
    found = {n: (g["role"], g.get("stack", 1)) for g in groups for n in g["param_names"]}
    assert {p for g in groups for p in g["params"]} == set(model.parameters())
    assert len(found) == len(list(model.parameters()))
    for ending, wanted in expected.items():
        seen = [role for n, role in found.items() if n.endswith(ending) and "gru" not in n]
        assert seen, ending
        assert set(seen) == {wanted}, ending
    assert all(found[n] == ("vector", 1) for n, p in model.named_parameters() if p.ndim == 1)
    if name == "lstm":
        assert found["gru.weight_ih_l0"] == ("hidden", 3)


@pytest.mark.parametrize("kind", [SFW, Scion, DCFW])
@pytest.mark.parametrize("name", MODELS)
def test_the_groups_of_every_model_train_and_all_weights_stay_in_their_sets(name, kind):
    model = MODELS[name][0]()
    optimizer = kind(param_groups(model), lr=0.05, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        model().square().mean().backward()
        optimizer.step()
    for row in norms(model, optimizer.param_groups).rows:
        assert not row.size > row.radius * (1.0 + 1e-5), row
    assert all(bool(p.isfinite().all()) for p in model.parameters())


def test_stacked_matrices_have_a_ball_each():
    model = nn.MultiheadAttention(8, 2)
    (hidden, *_) = param_groups(model, roles={"hidden": {"radius": 0.5}})
    optimizer = Scion([hidden], lr=1.0, momentum=0.0)  # a step to the vertex
    model.in_proj_weight.grad = torch.randn(24, 8)
    optimizer.step()
    for part in model.in_proj_weight.detach().chunk(3):
        sigma = torch.linalg.svdvals(part)
        assert sigma[:6].tolist() == pytest.approx([0.5] * 6, rel=0.02)  # the least may take more steps
        assert float(sigma[0]) <= 0.5


def test_radii_follow_the_role():
    groups = {group["role"]: group for group in param_groups(GPT())}
    wide = param_groups(GPT(d=32), roles={"embedding": {"radius": 1.0}})
    bound = {role: region_of(g, tuple(g["params"][0].shape)).bound for role, g in groups.items()}
    assert bound["embedding"] == groups["embedding"]["radius"]  # whatever the vocabulary
    assert bound["head"] == groups["head"]["radius"] / 8
    assert bound["vector"] == float("inf")
    assert [region_of(g, (33, 32)).bound for g in wide if g["role"] == "head"] == [
        groups["head"]["radius"] / 32
    ]


def test_the_table_shows_every_weight_its_set_and_its_radius():
    text = str(param_groups(GPT()))
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines()[2:]}
    assert lines["blocks.0.qkv.weight"] == ["24x8", "hidden", "spectral", "3", "3"]
    assert lines["lm_head.weight"] == ["11x8", "head", "linf", "12.5"]
    assert lines["blocks.1.norm.bias"] == ["8", "vector", "free"]
    assert len(lines) == len(list(GPT().parameters()))


def test_overrides_by_pattern_win_and_a_pattern_without_a_match_is_named():
    groups = param_groups(
        GPT(),
        overrides={"blocks.*.weight": {"radius": 7.0}, "blocks.1.proj.*": {"role": "head"}},
        roles={"vector": {"constraint": "linf"}},
        momentum=0.5,
    )
    by_name = {n: g for g in groups for n in g["param_names"]}
    assert by_name["blocks.0.fc.weight"]["radius"] == 7.0
    assert by_name["blocks.1.proj.weight"]["role"] == "head"
    assert by_name["wte.weight"]["radius"] != 7.0
    assert by_name["blocks.0.norm.weight"]["radius"] == 7.0
    assert by_name["blocks.0.norm.bias"]["constraint"] == "linf"
    assert {g["momentum"] for g in groups} == {0.5}
    with pytest.raises(ValueError, match=r"no parameter has a name that matches 'blocks\.9\.\*'"):
        param_groups(GPT(), overrides={"blocks.9.*": {"radius": 1.0}})
    with pytest.raises(ValueError, match="each role must be one of"):
        param_groups(GPT(), roles={"heads": {}})
    box = {"vector": {"constraint": "box", "radius": (0.0, 2.0)}}
    with pytest.raises(TypeError, match=r"radius must be a pair .* of blocks\.0\.norm\.weight"):
        param_groups(GPT(), overrides={"blocks.*.weight": {"radius": 7.0}}, roles=box)


@pytest.mark.parametrize(
    "given",
    [
        {"overrides": {"wte.weight": {"raduis": 1.0}}},
        {"roles": {"hidden": {"raduis": 1.0}}},
        {"raduis": 1.0},
    ],
)
def test_a_misspelt_option_is_named_with_the_one_that_was_meant(given):
    with pytest.raises(ValueError, match=r"each option.*got 'raduis'; did you mean 'radius'\?"):
        param_groups(GPT(), **given)


def test_a_radius_of_an_override_has_the_factor_of_its_role_unless_it_is_absolute():
    for mode, bound in (({}, 5.0 * 0.5), ({"radius_mode": "absolute"}, 5.0)):
        layers = torch.nn.Sequential(torch.nn.Linear(64, 16, bias=False), torch.nn.Linear(16, 4))
        groups = param_groups(layers, overrides={"0.weight": {"radius": 5.0, **mode}})
        assert region_of(groups[0], (16, 64)).bound == bound


def test_one_set_for_all_weights_leaves_vectors_free():
    groups = param_groups(GPT(), constraint="linf", radius=0.5)
    assert {(g["constraint"], g["role"] == "vector") for g in groups} == {("linf", False), (None, True)}


def test_a_weight_is_left_out_by_none_or_by_the_word_of_the_table():
    for free in (None, "free"):
        groups = param_groups(GPT(), overrides={"blocks.0.fc.weight": {"constraint": free}})
        assert ["blocks.0.fc.weight", "32x8", "hidden", "free"] in [
            row.split() for row in str(groups).splitlines()
        ]
    with pytest.raises(ValueError, match="did you mean 'spectral'"):
        param_groups(GPT(), overrides={"blocks.0.fc.weight": {"constraint": "spectrl"}})


def test_a_radius_without_a_constraint_is_refused_with_what_to_write():
    with pytest.raises(ValueError, match=r"constraint='spectral', radius=2\.0.*roles=.*Scion\(model, radius"):
        param_groups(GPT(), radius=2.0)


def test_a_pattern_for_the_second_name_of_a_tied_weight_is_refused_with_the_first():
    with pytest.raises(ValueError, match=r"lm_head\.weight is tied to wte\.weight"):
        param_groups(GPT(tied=True), overrides={"lm_head.*": {"radius": 1.0}})


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_compiled_models_have_the_roles_and_names_of_their_own_models():
    plain = GPT()
    expected = str(param_groups(plain))
    assert str(param_groups(torch.compile(plain))) == expected
    plain.lm_head, plain.blocks[0] = torch.compile(plain.lm_head), torch.compile(plain.blocks[0])
    assert str(param_groups(plain)) == expected
    layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    assert str(param_groups(torch.compile(layers))) == str(param_groups(layers))


def test_a_report_says_whose_radii_it_shows_and_what_the_norm_of_a_kernel_is():
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten())
    assert [note.split(":")[0] for note in norms(model).notes] == ["radii", "convolutions"]
    optimizer = Scion(model, radius=0.5)
    report = norms(model, optimizer)
    assert str(report) == str(norms(model, optimizer.param_groups))
    assert report.rows[0].radius == pytest.approx(1.5 * (3 / 18) ** 0.5)
    assert str(report).splitlines()[-1].startswith("convolutions")
    with pytest.raises(TypeError, match=r"result of constrain\(\.\.\.\)"):
        norms(model, torch.optim.SGD(model.parameters(), 0.1))


def test_a_report_has_the_norms_of_every_weight():
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
    groups = param_groups(model, constraint="spectral", radius=2.0)
    report = norms(model, groups)
    row = report.rows[0]
    weight = model[0].weight.detach()
    assert row.operator == pytest.approx(float(torch.linalg.matrix_norm(weight, 2)), rel=0.05)
    assert row.linf == float(weight.abs().max())
    assert row.l1 == pytest.approx(float(weight.abs().sum()))
    assert (row.radius, report.rows[1].radius, report.rows[1].constraint) == (2.0, float("inf"), "free")
    product = sum(float(torch.linalg.matrix_norm(m.weight.detach(), 2).log()) for m in model)
    assert report.log_product == pytest.approx(product, abs=0.1)
    assert len(str(report).splitlines()) == 6


def test_a_report_is_drawn():
    pytest.importorskip("matplotlib")
    import matplotlib

    matplotlib.use("agg")
    ax = norms(nn.Linear(3, 2)).plot()
    assert ax.get_xlabel() == "norm / radius"
    assert len(ax.patches) == 1


def test_an_operator_norm_is_found_where_the_columns_have_equal_norms():
    model = torch.nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, -1.0]]))
    assert norms(model).rows[0].operator == pytest.approx(2**0.5)


def test_scion_refuses_parameters_without_layers_and_reports_exact_operator_norms():
    model = nn.Sequential(nn.Linear(30, 40), nn.Linear(40, 5))
    for bare in (model.parameters(), [{"params": list(model.parameters())}]):
        with pytest.raises(TypeError, match=r"Scion\(model\)"):
            Scion(bare)
    for row in norms(model).rows:
        exact = (
            torch.linalg.matrix_norm(dict(model.named_parameters())[row.name].detach().double(), 2)
            if len(row.shape) == 2
            else row.operator
        )
        assert row.operator == pytest.approx(float(exact), rel=1e-5)


def test_kernels_of_transposed_convolutions_have_their_inputs_in_rows():
    model = torch.nn.Sequential(torch.nn.ConvTranspose2d(16, 4, 3), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    (group,) = [g for g in param_groups(model) if g["role"] == "transposed"]
    assert group["param_names"] == ["0.weight"]  # 16 x 4 x 3 x 3: d_in = 16 rows, 36 columns for d_out
    optimizer = Scion([group], lr=1.0)
    weight = model[0].weight
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    norm = torch.linalg.matrix_norm(weight.detach().reshape(16, -1), 2)
    torch.testing.assert_close(float(norm), 3.0 * (36 / 16) ** 0.5, rtol=0.02, atol=0.0)


@pytest.mark.parametrize("key", ["raduis", "weight_decy", "momentun"])
def test_a_misspelt_key_of_a_group_is_named_and_a_key_of_the_users_own_is_not(key):
    weight = torch.nn.Parameter(torch.zeros(3, 2))
    with pytest.raises(ValueError, match=f"'{key}' is not an option of groups; did you mean"):
        SFW([{"params": [weight], key: 0.5}])
    SFW([{"params": [weight], "my_own_note": 0.5}])


def test_groups_of_objects_with_the_same_repr_stay_apart():
    class Ball:
        def __init__(self, size):
            self.size = size

        def __repr__(self):
            return "Ball"

        def lmo(self, G):
            return -self.size * torch.sign(G)

    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    own = {f"{k}.weight": {"constraint": Ball(float(k + 1))} for k in (0, 1)}
    groups = param_groups(model, overrides=own)
    assert sorted(g["constraint"].size for g in groups if hasattr(g["constraint"], "size")) == [1.0, 2.0]
