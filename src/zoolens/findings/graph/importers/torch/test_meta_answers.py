"""Every answer is held against torch's own on the same tensors without numbers."""

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from zoolens.findings.graph.importers.torch.meta_answers import MetaAnswers  # noqa: E402
from zoolens.findings.graph.importers.torch.recording import _bound, _schema  # noqa: E402


class Compared(TorchDispatchMode):
    """Asks both for everything that is computed meanwhile."""

    def __init__(self):
        super().__init__()
        self.answers, self.answered = MetaAnswers(), []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        op, schema = _schema(function)
        bound = _bound(schema, args, kwargs or {})
        in_place = any(changes and bound[name] is not None for name, _, changes in schema)
        ours = self.answers.answer(function, op, bound, in_place=in_place)
        theirs = function(*args, **(kwargs or {}))
        if ours is not None:
            self.answered.append(op)
            assert (ours is theirs) == in_place
            assert (ours.shape, ours.stride(), ours.dtype) == (theirs.shape, theirs.stride(), theirs.dtype)
            assert ours.is_meta
        self.answers.keep(function, op, bound, theirs)
        return theirs


def of(*shape, **kinds):
    return torch.empty(shape, device="meta", **kinds)


X = (1, 8, 9, 7)
PLAIN = {
    "conv": lambda: functional.conv2d(of(*X), of(6, 8, 3, 3), of(6), stride=2, padding=1),
    "conv by groups": lambda: functional.conv2d(of(*X), of(8, 1, 3, 5), None, stride=(1, 2), padding=(1, 2), groups=8),
    "dilated conv": lambda: functional.conv2d(of(*X), of(4, 8, 3, 3), dilation=(2, 3)),
    "conv over places": lambda: functional.conv1d(of(2, 4, 11), of(6, 2, 3), padding=1, groups=2),
    "conv over volumes": lambda: functional.conv3d(of(1, 2, 5, 6, 7), of(3, 2, 2, 3, 3)),
    "batch norm": lambda: functional.batch_norm(of(*X), of(8), of(8), of(8), of(8)),
    "batch norm alone": lambda: functional.batch_norm(of(3, 8), of(8), of(8)),
    "layer norm": lambda: functional.layer_norm(of(2, 5, 8), (8,), of(8), of(8)),
    "layer norm over two axes": lambda: functional.layer_norm(of(2, 5, 8), (5, 8)),
    "linear": lambda: functional.linear(of(2, 5, 8), of(3, 8), of(3)),
    "linear of rows": lambda: functional.linear(of(2, 8), of(3, 8)),
    "relu": lambda: functional.relu(of(*X)),
    "relu6 in place": lambda: functional.hardtanh(of(*X).permute(0, 2, 3, 1), 0, 6, inplace=True),
    "gelu": lambda: functional.gelu(of(*X), approximate="tanh"),
    "hardswish": lambda: functional.hardswish(of(*X)),
    "sum": lambda: of(*X) + of(*X),
    "scaled": lambda: of(*X) * of(1, 8, 1, 1),
    "scale first": lambda: of(1, 8, 1, 1) * of(*X),
    "half": lambda: of(*X) / 2,
    "attention again": lambda: [functional.scaled_dot_product_attention(*[of(1, 2, 5, 4)] * 3) for _ in "ab"],
    "turned attention again": lambda: [
        functional.scaled_dot_product_attention(*[of(1, 5, 2, 4).transpose(1, 2)] * 3) for _ in "ab"
    ],
    "pool again": lambda: [functional.max_pool2d(of(*X), 3, 2, 1, ceil_mode=True) for _ in "ab"],
    "mean again": lambda: [of(*X).mean((2, 3), keepdim=True) for _ in "ab"],
}  # fmt: skip
ODD = {
    "padding by name": lambda: functional.conv2d(of(*X), of(6, 8, 3, 3), padding="same"),
    "without a batch": lambda: functional.conv2d(of(8, 9, 7), of(6, 8, 3, 3)),
    "channels last": lambda: functional.batch_norm(of(*X).contiguous(memory_format=torch.channels_last), of(8), of(8)),
    "turned": lambda: functional.gelu(of(*X).transpose(1, 2)),
    "statistics of the batch": lambda: functional.batch_norm(of(*X), of(8), of(8), training=True),
    "other types": lambda: of(*X) + of(*X, dtype=torch.float64),
    "whole numbers": lambda: of(2, 3, dtype=torch.int64) * 2.5,
    "both stretched": lambda: of(1, 8, 1, 7) * of(1, 1, 9, 7),
    "fewer axes": lambda: of(*X) + of(7),
    "numbers": lambda: torch.zeros(2, 3).relu(),
}


@pytest.mark.parametrize("name", [*PLAIN, *ODD])
def test_answers_are_those_of_torch(name):
    with torch.inference_mode(), Compared() as compared:
        {**PLAIN, **ODD}[name]()
    assert bool(compared.answered) == (name in PLAIN)


def test_what_torch_refuses_is_refused():
    for wrong in (
        lambda: functional.conv2d(of(*X), of(6, 7, 3, 3)),
        lambda: functional.linear(of(2, 9), of(3, 8)),
        lambda: functional.layer_norm(of(2, 9), (8,)),
        lambda: of(*X) + of(1, 3, 9, 7),
    ):
        with torch.inference_mode(), Compared() as compared, pytest.raises(RuntimeError):
            wrong()
        assert not compared.answered
