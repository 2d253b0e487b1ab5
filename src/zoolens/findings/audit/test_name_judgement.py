"""The guard: a name claims an architecture, and only exactly that goes by it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from zoolens.base.verdicts import Coverage, Outcome, Tally
from zoolens.findings.audit.identification import Identification, identify
from zoolens.findings.audit.name_claims import name_claim
from zoolens.findings.audit.name_judgement import judge_name
from zoolens.findings.audit.papers import paper
from zoolens.findings.audit.papers.compile import compile_paper
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Graph, Node, Parameter
from zoolens.findings.graph.signatures.image_size import resized
from zoolens.findings.graph.signatures.known_networks import PAPER, shipped
from zoolens.findings.graph.signatures.nearest_networks import nearest, similarity

pytestmark = pytest.mark.usefixtures("trusted_models")

RESNET = compile_paper(paper("resnet18"))
SAME, DIFFERENT, NOT_KNOWN = Outcome.SAME, Outcome.DIFFERENT, Outcome.NOT_KNOWN


def outcome(graph, name, **options):
    return identify(graph, name, names=[name], **options).verdict.outcome


class Named:
    """One network under many names: it is held against all known networks once."""

    def __init__(self, graph: Graph) -> None:
        self.found = identify(graph, "it")
        self.scored = [(similarity(self.found.signature, known.signature), known) for known in shipped()]

    def outcome(self, name: str) -> Outcome:
        return judge_name(self.found, name_claim([name]), self.scored).verdict.outcome


# --- one change to a network that keeps its name


def changed(graph: Graph, change: Callable[[Node], Node]) -> Graph:
    return replace(graph, nodes=tuple(map(change, graph.nodes)))


def one_convolution(graph: Graph, **attributes) -> Graph:
    """The first 3×3 convolution of stride 1 with other settings, and kernels of a shape that fits them."""
    chosen = next(node for node in graph if node.get("kernel") == (3, 3) and node.get("stride", (1, 1)) == (1, 1))
    kernel = chosen.parameter("kernel")
    width, taken = kernel.shape[0], kernel.shape[1] // attributes.get("groups", 1)
    other = replace(kernel, shape=(width, taken, *attributes.get("kernel", (3, 3))))
    node = chosen.with_attributes(**attributes).with_parameters(kernel=other)
    return changed(graph, lambda each: node if each.name == chosen.name else each)


def with_activation(graph: Graph, op: str) -> Graph:
    return changed(graph, lambda node: replace(node, op=op) if node.op in ("relu", "relu6") else node)


def pruned(graph: Graph, share: float) -> Graph:
    """The first convolution of every basic block with fewer kernels: it feeds a ReLU that feeds a convolution."""
    narrow: dict[str, int] = {}  # by the value that is narrower
    for activation in (node for node in graph if node.op == "relu"):
        (source,) = (graph.by_name[name] for name in activation.inputs)
        user = graph.sole_consumer(activation.name)
        if source.op == "conv" and user is not None and user.op == "conv":
            narrow[source.name] = narrow[activation.name] = int(source.shape[1] * share)

    def change(node: Node) -> Node:
        width = narrow.get(node.name)
        taken = narrow.get(node.inputs[0]) if node.inputs else None
        kernel = node.parameter("kernel")
        if kernel is not None:
            shape = (width or kernel.shape[0], taken or kernel.shape[1], *kernel.shape[2:])
            node = node.with_parameters(kernel=replace(kernel, shape=shape))
        return replace(node, shape=(1, width, *node.shape[2:])) if width else node

    return changed(graph, change)


def without_block(graph: Graph) -> Graph:
    """The last residual block taken out: what used its sum uses the sum before."""
    sums = [node for node in graph if node.op == "add"]
    (before,) = (node for node in graph if node.op == "relu" and node.inputs == (sums[-2].name,))
    (after,) = (node for node in graph if node.op == "relu" and node.inputs == (sums[-1].name,))
    first = graph.nodes.index(before) + 1
    nodes = [
        replace(node, inputs=tuple(before.name if name == after.name else name for name in node.inputs))
        for place, node in enumerate(graph.nodes)
        if place < first or place > graph.nodes.index(after)
    ]
    return replace(graph, nodes=tuple(nodes))


CHANGES = {
    "a 5×5 kernel": one_convolution(RESNET, kernel=(5, 5), pads=(2, 2, 2, 2)),
    "a dilation": one_convolution(RESNET, dilation=(2, 2), pads=(2, 2, 2, 2)),
    "groups": one_convolution(RESNET, groups=2),
    "ELU": with_activation(RESNET, "elu"),
    "leaky ReLU": with_activation(RESNET, "leaky_relu"),
    "pruned": pruned(RESNET, 0.75),
    "a block less": without_block(RESNET),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_network_does_not_pass_under_its_old_name(change):
    found = identify(CHANGES[change], "resnet18.onnx", names=["resnet18.onnx"])
    assert found.verdict.outcome is DIFFERENT
    assert found.contradiction.startswith("resnet18.onnx is not a ResNet-18: compared with ")


@pytest.mark.parametrize(
    ("name", "graph"),
    [
        ("mobilenet_v2_1.0", with_activation(compile_paper(paper("mobilenet_v2_1.0")), "elu")),
        ("densenet121", one_convolution(compile_paper(paper("densenet121")), kernel=(5, 5), pads=(2, 2, 2, 2))),
        ("efficientnet_b0", one_convolution(compile_paper(paper("resnet50")), groups=2)),
    ],
)
def test_other_networks_that_are_changed_do_not_pass_either(name, graph):
    assert outcome(graph, name) is DIFFERENT


def test_relatives_pass_where_that_is_asked_for():
    assert outcome(CHANGES["ELU"], "resnet18.onnx", like=True) is SAME
    assert outcome(CHANGES["pruned"], "resnet18.onnx", like=True) is SAME
    assert outcome(CHANGES["pruned"], "vgg16.onnx", like=True) is DIFFERENT


def test_the_share_of_pruned_widths_is_told():
    found = identify(CHANGES["pruned"], "resnet18.onnx", names=["resnet18.onnx"])
    assert "the same layers, 8 of 20 of them with 0.75 × the width" in found.contradiction


def test_what_the_table_of_known_networks_does_not_hold_is_not_agreement():
    place, dense = next((place, node) for place, node in enumerate(RESNET.nodes) if node.op == "dense")
    half = Node("half", "mul", dense.inputs, RESNET.by_name[dense.inputs[0]].shape, {"scalar": 0.5})
    halved = (*RESNET.nodes[:place], half, replace(dense, inputs=("half",)), *RESNET.nodes[place + 1 :])
    assert outcome(replace(RESNET, nodes=halved), "resnet18") is NOT_KNOWN

    def without_norm(node: Node) -> Node:
        kept = tuple(tensor for tensor in node.parameters if not tensor.role.startswith("norm_"))
        return replace(node.with_attributes(norm=None, epsilon=None), parameters=kept)

    assert outcome(changed(RESNET, without_norm), "resnet18") is NOT_KNOWN


def test_an_image_size_at_which_padding_is_not_known_is_not_agreement():
    """A network whose padding does not follow from the size has the padding of a zoo's network at the size of that."""
    smaller = resized(RESNET, (96, 96))
    assert outcome(smaller, "resnet18") is SAME
    stem = next(node for node in smaller if node.op == "conv")
    moved = stem.with_attributes(pads=(4, 4, 2, 2))
    other = changed(smaller, lambda node: moved if node.name == stem.name else node)
    found = identify(other, "resnet18", names=["resnet18"])
    assert found.verdict.outcome is NOT_KNOWN
    assert "a ResNet-18, whose padding at this image size is not known" in found.judgement.sentence
    assert outcome(other, "resnet18", like=True) is SAME


def test_a_structure_that_is_bound_to_its_image_size_is_not_accused():
    """Windows that are arranged by the size, here a reshape that holds it, cannot be read at the size that is known."""
    smaller = resized(RESNET, (96, 96))
    pool = next(node for node in smaller if node.op == "global_avg_pool")
    before = smaller.by_name[pool.inputs[0]]
    _, width, *extents = before.shape
    split = Node("split", "reshape", (before.name,), (1, width, extents[0], 3, extents[1] // 3))
    rolled = Node("rolled", "roll", ("split",), split.shape, {"axis": 3, "shift": 1})
    merged = Node("merged", "reshape", ("rolled",), before.shape)
    place = smaller.nodes.index(pool)
    nodes = (*smaller.nodes[:place], split, rolled, merged, replace(pool, inputs=("merged",)))
    graph = replace(smaller, nodes=(*nodes, *smaller.nodes[place + 1 :]))
    found = identify(graph, "resnet18", names=["resnet18"])
    assert found.verdict.outcome is NOT_KNOWN
    assert "their arrangement is known at 224×224 only, while it is bound to 96×96" in found.judgement.sentence


def test_a_padding_that_only_papers_could_tell_is_not_known():
    assert outcome(compile_paper(paper("resnet8")), "resnet8") is NOT_KNOWN


def with_norms(graph: Graph, every: int = 1) -> Graph:
    """Batch norms after every n-th convolution."""
    norm = {"norm": "batch_norm", "epsilon": 1e-5}
    convolutions = [node for node in graph if node.op == "conv"][::every]
    names = {node.name for node in convolutions}

    def normed(node: Node) -> Node:
        if node.name not in names:
            return node
        roles = ("norm_scale", "norm_shift", "norm_mean", "norm_variance")
        further = tuple(Parameter(role, (node.shape[1],)) for role in roles)
        return replace(node.with_attributes(**norm), parameters=(*node.parameters, *further))

    return changed(graph, normed)


def test_norms_that_can_be_seen_are_held_against_the_networks_of_the_name():
    plain = compile_paper(paper("vgg16"), classes=7)
    for every in (1, 5):
        found = identify(with_norms(plain, every), "vgg16", names=["vgg16"])
        assert found.verdict.outcome is DIFFERENT
        assert "it has norms, which gluon:vgg16" in found.contradiction
    assert outcome(with_norms(plain), "vgg16_bn") is SAME
    assert outcome(plain, "vgg16") is SAME
    assert outcome(with_norms(compile_paper(paper("squeezenet1_1"))), "squeezenet1_1") is DIFFERENT


def test_folded_norms_are_told_where_a_name_speaks_of_them():
    plain = compile_paper(paper("vgg16"))
    sentences = [identify(plain, name, names=[name]).judgement.sentence for name in ("vgg16", "vgg16_bn")]
    assert sentences[0] == "vgg16 is what its name says."
    assert sentences[1] == "vgg16_bn is what its name says. Its norms are folded into biases, or it never had any."


def strange(graph: Graph) -> Graph:
    """With an operator that nobody knows before the last layer."""
    last = graph.nodes[-1]
    unknown = Node("strange", "unknown", last.inputs, graph.by_name[last.inputs[0]].shape, {"source_op": "v:Swirl"})
    return replace(graph, nodes=(*graph.nodes[:-1], unknown, replace(last, inputs=("strange",))))


def perceptron(*widths: int) -> Graph:
    build = GraphBuilder("perceptron")
    value = build.add("input", [], (1, widths[0]))
    for before, after in pairwise(widths):
        value = build.add("dense", [value], (1, after), parameters=[Parameter("kernel", (after, before))])
    return build.finish([value])


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (perceptron(12, 20, 8), "it has 400 parameters, and the kernels of gluon:resnet18_v1 alone have 11,1"),
        (perceptron(4096, 4096, 10), "its kernels have 16,777,216 parameters, and gluon:resnet18_v1 has 11,6"),
        (compile_paper(paper("resnet34")), "more than gluon:resnet18_v1"),
        (compile_paper(paper("mobilenet_v2_1.0")), "more than"),
    ],
    ids=["too small", "too large", "deeper", "another"],
)
def test_what_is_understood_may_prove_that_a_name_is_wrong(graph, said):
    found = identify(strange(graph), "resnet18.onnx", names=["resnet18.onnx"])
    assert found.verdict.outcome is DIFFERENT
    assert said in found.contradiction


def test_operators_that_are_not_understood_leave_a_name_open_unless_a_window_refutes_it():
    found = identify(strange(RESNET), "resnet18.onnx", names=["resnet18.onnx"])
    assert found.verdict.outcome is NOT_KNOWN
    assert not found.exact
    assert "operator v:Swirl" in found.judgement.sentence
    assert outcome(strange(CHANGES["a 5×5 kernel"]), "resnet18.onnx") is DIFFERENT
    assert outcome(strange(RESNET), "densenet") is NOT_KNOWN


# --- names


@pytest.fixture(scope="module")
def resnet():
    return Named(RESNET)


@pytest.fixture(scope="module")
def narrow_resnet():
    return Named(CHANGES["pruned"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnet18.onnx", SAME),
        ("resnet18_final", SAME),
        ("resnet", SAME),
        ("resnet18_from_resnet50", SAME),
        ("resnet18-distilled-from-vit_b_16", SAME),
        ("resnet50-teacher-resnet18-student", SAME),
        ("resnet18_cifar10", SAME),
        ("resnet34", DIFFERENT),
        ("densenet", DIFFERENT),
        ("swin_tiny", DIFFERENT),
        ("bert-base", DIFFERENT),
        ("yolov5s", DIFFERENT),
        ("deit_tiny", DIFFERENT),
        ("convnext", DIFFERENT),
        ("mobilenetv2_distilled_from_resnet18", DIFFERENT),
        ("resnet20", NOT_KNOWN),  # a ResNet whose structure is not among those known
        ("resnet18d", NOT_KNOWN),
        ("resnet18_vd", NOT_KNOWN),
        ("se_resnet18", NOT_KNOWN),
        ("wide_resnet18", NOT_KNOWN),
    ],
)
def test_a_resnet_18_under_many_names(name, expected, resnet):
    assert outcome(RESNET, name) is expected


HONEST = ("resnet18_pruned", "resnet18-elu", "se_resnet18", "resnet18_vd", "resnet26", "unet_resnet18")


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_name_of_a_network_that_is_not_known_is_not_accused(name, narrow_resnet):
    assert narrow_resnet.outcome(name) is NOT_KNOWN


def test_widths_and_activations_do_not_hide_a_family():
    found = identify(CHANGES["pruned"], "densenet", names=["densenet"])
    assert found.verdict.outcome is DIFFERENT
    assert "is a ResNet-18, and its name speaks of DenseNet" in found.contradiction


def test_a_name_that_claims_nothing_is_not_judged():
    found = identify(RESNET, "model.onnx", names=["model.onnx"])
    assert found.verdict is None
    assert found.as_data()["outcome"] is None


@pytest.mark.slow
def test_no_known_network_is_accused_under_the_name_that_its_zoo_gives_it():
    """Papers seldom say how they pad, and of gluon's networks it was not recorded."""
    whole = Coverage((Tally("layers", 1, 1),))
    outcomes: Counter[Outcome] = Counter()
    for known in shipped():
        name = f"{known.name}.onnx"
        scored = [(similarity(known.signature, other.signature), other) for other in shipped()]
        matches = tuple(nearest(known.signature, shipped(), 3))
        found = Identification(name, known.signature, matches, known.architecture, known.name, whole)
        judgement = judge_name(found, name_claim([name]), scored)
        assert judgement.verdict.outcome is not DIFFERENT, judgement.sentence
        if known.zoo != PAPER and known.signature.padding:
            outcomes[judgement.verdict.outcome] += 1
    assert outcomes[SAME] > 0.95 * outcomes.total()
