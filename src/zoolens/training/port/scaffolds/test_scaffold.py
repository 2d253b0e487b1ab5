"""Drafts of small networks: they compute the same, repeat nothing, and never do what a name says."""

import ast
import math

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.training.pairs.sides.network_sides import InputShape, LiveSide
from zoolens.training.port.port_check import check
from zoolens.training.port.scaffolds.scaffolding import draft_of_side, scaffold

torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras")
nn = torch.nn


def drafted(net, to, *inputs, name="net.py:net"):
    with LiveSide(net, [InputShape.parse(text) for text in inputs], name) as side:
        return draft_of_side(side, to, inputs)


def made(draft):
    """What net() of a draft returns."""
    assert max(map(len, draft.code.splitlines())) <= 100
    assert "zoolens" not in draft.code
    names = {}
    exec(compile(draft.code, "draft.py", "exec"), names)
    return names["net"]()


class Residual(nn.Module):
    def __init__(self, given, width, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(given, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width, eps=1e-3, momentum=0.05)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.act = nn.GELU()
        self.short = nn.Conv2d(given, width, 1, stride)

    def forward(self, x):
        return self.act(self.conv2(self.act(self.bn1(self.conv1(x)))) + self.short(x))


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width, self.squeeze = width, nn.Linear(width, width)

    def forward(self, x):
        gate = self.squeeze(x.mean((2, 3))).sigmoid().reshape(-1, self.width, 1, 1)
        return (x * gate)[:, : self.width // 2] * self.width


@pytest.mark.slow
def test_numbers_of_expressions_differ_between_the_instances_of_a_block():
    net = nn.Sequential(nn.Conv2d(3, 16, 1), Gate(16), Gate(8), Gate(4))
    draft = drafted(net, "torch", "3x4x4")
    assert draft.blocks == 1
    assert check(net, made(draft), ["3x4x4"]).same


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.blocks = nn.Sequential(Residual(4, 4), Residual(4, 6, 2), Residual(6, 6), Residual(6, 8, 2))
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.pool(self.blocks(self.stem(x)))
        return self.head(self.drop(torch.flatten(x, 1)))


@pytest.mark.slow
def test_a_network_of_blocks_in_keras():
    net = Small()
    draft = drafted(net, "keras", "3x8x8")
    assert (draft.todos, draft.notes) == ((), ())
    functions = [part.name for part in ast.parse(draft.code).body if isinstance(part, ast.FunctionDef)]
    assert functions == ["residual", "net"]
    assert "momentum=0.95, epsilon=0.001" in draft.code
    assert "Dropout(0.25" in draft.code
    assert draft.code.count("residual(x, ") == 5  # one definition, four calls
    found = check(net, made(draft), ["3x8x8"])
    assert found.same
    assert not [item for item in found.training if "dropout" in item.what or "share" in item.what]


def test_a_keras_network_in_torch():
    kl = keras.layers
    x = image = keras.Input((8, 8, 3))
    for number, width in enumerate((4, 6, 6), 1):
        x = kl.Conv2D(width, 3, strides=2, padding="same", name=f"block{number}_conv")(x)
        x = kl.BatchNormalization(scale=False, name=f"block{number}_bn")(x)
        x = kl.LeakyReLU(0.1, name=f"block{number}_act")(x)
    x = kl.Dropout(0.5)(kl.Flatten()(x))
    net = keras.Model(image, kl.Dense(5, activation="softmax", name="head")(x))
    draft = drafted(net, "torch", "3x8x8")
    assert not draft.todos
    port = made(draft)
    assert type(port.block1).__name__ == type(port.block3).__name__ == "Block"
    assert not port.block1.bn.weight.requires_grad  # the source has no scale that could be learned
    assert check(net, port, ["3x8x8"]).agreement.agree is True


def test_the_order_of_a_map_that_is_flattened_or_returned():
    class Order(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 2)

        def forward(self, x):
            x = self.conv(x)
            return x, x.flatten(1) * 2, x.flatten(2).transpose(1, 2)

    net = Order()
    assert check(net, made(drafted(net, "keras", "3x4x5")), ["3x4x5"]).agreement.agree is True


class Hostile(nn.Module):
    NAMES = (
        'x"); raise SystemExit("smuggled")  #',
        '"""\nraise SystemExit("smuggled")\n"""',
        "\nimport os",
        "{name}{0[0]}",
        "class",
        "1e5",
        "\\",
        "\u043a\u0430",
        "training_",
    )

    def __init__(self):
        super().__init__()
        self.order = []
        for name in self.NAMES:
            for number in range(3):  # so that blocks have such names, too
                hostile = type(name.replace("\0", ""), (nn.Sequential,), {})
                part = hostile(nn.Linear(3, 3), nn.ReLU(), nn.LayerNorm(3))
                self.add_module(f"{name}{number}", part)
                self.order.append(part)

    def forward(self, x):
        for part in self.order:
            x = part(x)
        return torch.cumsum(x, 1)


@pytest.mark.parametrize("to", ["keras", "torch"])
def test_names_stay_names_and_unknown_layers_are_left_to_the_reader(to):
    draft = drafted(Hostile(), to, "3", name='a"""\nraise SystemExit("smuggled")\n.py:net')
    assert "SystemExit" not in set(_strings_removed(draft.code))
    assert [todo.op for todo in draft.todos] == ["aten.cumsum"]
    with pytest.raises(NotImplementedError, match="cumsum"):
        made(draft) if to == "keras" else made(draft)(torch.zeros(1, 3))


def _strings_removed(code):
    """The names and attributes that the code uses, and no text."""
    for node in ast.walk(ast.parse(code)):
        yield from (
            getattr(node, key) for key in ("id", "attr", "arg", "name") if isinstance(getattr(node, key, 0), str)
        )


def test_no_file_is_replaced_and_mistakes_are_said_at_once(tmp_path):
    old = tmp_path / "draft.py"
    old.write_text("mine")
    net = nn.Linear(2, 2)
    with pytest.raises(ZoolensError, match="exists already"):
        scaffold(net, ["2"], "keras", out=old)
    with pytest.raises(ZoolensError, match="exists already"):
        scaffold(net, ["2"], "torch", out=tmp_path / "new.py", weights=old.rename(tmp_path / "old.pt"))
    with pytest.raises(ZoolensError, match="not for 'jax'"):
        scaffold(net, ["2"], "jax", out=tmp_path / "new.py")
    with pytest.raises(ZoolensError, match="is no Python file"):
        scaffold(net, ["2"], "keras", out=tmp_path / "new.txt")
    with pytest.raises(ZoolensError, match="no files that end in"):
        scaffold(net, ["2"], "keras", out=tmp_path / "new.py", weights=tmp_path / "new.pt")
    assert (tmp_path / "old.pt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["old.pt"]


def attention(x, heads=2):
    q, k, v = (part.unflatten(2, (heads, -1)).transpose(1, 2) for part in x.chunk(3, 2))
    scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class LayerScale(nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.conv = conv
        self.scale = nn.Parameter(torch.rand(4, 1, 1) + 0.5)

    def forward(self, x):
        return self.conv(x) * self.scale


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return self.function(self.conv(x))


F = nn.functional
LAYERS = {
    "asymmetric pool": nn.MaxPool2d(3, 2, 1),
    "pool of ceil": nn.MaxPool2d(3, 2, ceil_mode=True),
    "average pool": nn.AvgPool2d(3, 2, 1),
    "average pool without padding in the mean": nn.AvgPool2d(3, 1, 1, count_include_pad=False),
    "adaptive pool": nn.AdaptiveAvgPool2d((3, 4)),
    "transposed": nn.ConvTranspose2d(4, 3, 4, 2, 1),
    "grouped": nn.Conv2d(4, 8, 3, 2, 1, groups=2),
    "dilated": nn.Conv2d(4, 8, 3, padding=2, dilation=2),
    "depthwise, multiplied": nn.Conv2d(4, 8, (3, 5), padding=(1, 2), groups=4),
    "group norm": nn.GroupNorm(2, 4),
    "instance norm": nn.InstanceNorm2d(4, affine=True),
    "batch norm without parameters": nn.BatchNorm2d(4, affine=False),
    "prelu": nn.PReLU(4),
    "scaled channels": LayerScale(nn.Conv2d(4, 4, 1)),
    "fixed numbers": Function(lambda x: x * torch.arange(6.0)),
    "one slope": nn.PReLU(),
    "gelu of tanh": nn.GELU("tanh"),
    "hard swish": nn.Hardswish(),
    "channels dropped together": nn.Dropout2d(0.1),
    "clip": nn.Hardtanh(-0.5, 2.0),
    "shuffle": nn.Sequential(nn.ChannelShuffle(2), nn.Conv2d(4, 3, 1)),
    "upsampled": nn.Upsample(scale_factor=2),
    "upsampled linearly": nn.Upsample(scale_factor=2, mode="bilinear"),
    "padded with a number": nn.ConstantPad2d((1, 2, 0, 1), 0.5),
    "reflected": nn.ReflectionPad2d(1),
    "softmax of channels": nn.Softmax(1),
    "mean of an axis": Function(lambda x: x.mean(2)),
    "squared and summed": Function(lambda x: (x**2).sum((1, 3), keepdim=True) + 1),
    "reversed": Function(lambda x: 1 - x / 2),
    "gate": Function(lambda x: x * x.mean((2, 3), keepdim=True).sigmoid()),
    "tokens and attention": Function(lambda x: attention(x.flatten(2).repeat(1, 3, 1).transpose(1, 2))),
    "channels last norm": Function(lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (4,)).permute(0, 3, 1, 2)),
    "cut": Function(lambda x: torch.cat([x[:, 1:3], x[:, :1]], 1)),
    "normalised": Function(lambda x: F.normalize(x, dim=1)),
    "quick gelu": Function(lambda x: x * torch.sigmoid(1.702 * x)),
}


@pytest.mark.slow
@pytest.mark.parametrize("to", ["keras", "torch"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_one_by_one(name, to):
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), LAYERS[name])
    draft = drafted(net, to, "3x8x6")
    if name == "fixed numbers":
        assert ["fixed" in todo.why for todo in draft.todos] == [True]
        return
    assert not draft.todos
    assert check(net, made(draft), ["3x8x6"]).agreement.agree is True


class Again(nn.Module):
    """Layers that are called twice, one of them within a block that is repeated."""

    def __init__(self):
        super().__init__()
        self.one, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.blocks = nn.Sequential(Twofold(), Twofold(), Twofold())

    def forward(self, x):
        x = torch.relu(self.norm(self.one(x)))
        return self.blocks(torch.tanh(self.norm(self.one(x))))


class Twofold(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.other = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return self.inner(torch.relu(self.other(torch.relu(self.inner(x)))))


@pytest.mark.parametrize("to", ["keras", "torch"])
def test_a_layer_that_is_called_twice_is_one_layer(to):
    net = Again().eval()
    draft = drafted(net, to, "4x6x6")
    assert not draft.notes
    assert draft.blocks == 1
    found = check(net, made(draft), ["4x6x6"])
    assert found.same, found.diff.headline + draft.code
    assert sum(parameter.numel() for parameter in net.parameters()) == found.diff.b.parameters
