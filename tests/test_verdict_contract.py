"""The contract of every command that judges: same, different, or not known, with the coverage that it rests on.

Each case gives a command something that it cannot understand as a whole. Then the outcome is "not known" unless what is
understood proves a difference; the part that is not understood is named; and no line says that things agree or cost
nothing. docs/verdicts.md lists the commands, and a test holds the list against the cases.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

DOCS = Path(__file__).parents[1] / "docs" / "verdicts.md"
UNKNOWN_EXIT = 4
OUTCOMES = {"same", "different", "not known"}
# What is judged is no matter of the sandbox, and one batch size is enough to have figures.
QUICK = (
    *("--data", "demo", "--limit", 40, "-r", "onnxruntime"),
    *("--no-cold", "--latency-seconds", 0.1, "--batch", 1, "--trust"),
)
ODD, DOMAIN = "SampleOp", "com.microsoft"  # ONNX Runtime runs it; our readers do not know it


def network(path, *, seed=0, odd=True):
    """Two convolutions, a dense layer, and between them an operator that nobody here knows."""
    random = np.random.default_rng(seed)

    def weight(name, *shape):
        return numpy_helper.from_array((0.3 * random.standard_normal(shape)).astype(np.float32), name)

    middle = helper.make_node(ODD, ["b"], ["c"], domain=DOMAIN) if odd else helper.make_node("Relu", ["b"], ["c"])
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        middle,
        helper.make_node("Conv", ["c", "w2"], ["d"], kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("GlobalMaxPool", ["d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("MatMul", ["f", "w3"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 28, 28])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
        [weight("w1", 4, 1, 3, 3), weight("w2", 8, 4, 3, 3), weight("w3", 8, 10)],
        value_info=[helper.make_tensor_value_info("c", TensorProto.FLOAT, ["n", 4, 28, 28])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)])
    model.ir_version = 9
    onnx.save(model, path)
    return path


@pytest.fixture
def files(tmp_path):
    return {
        "a": network(tmp_path / "a.onnx"),
        "copy": network(tmp_path / "copy.onnx"),
        "b": network(tmp_path / "b.onnx", seed=1),
        "plain": network(tmp_path / "plain.onnx", odd=False),
        "resnet18": network(tmp_path / "resnet18.onnx"),
        "resnet20": network(tmp_path / "resnet20.onnx"),
        "folder": tmp_path,
    }


def judged(done):
    """The JSON of a command, once it keeps the contract of every verdict."""
    assert "Traceback" not in done.stderr
    data = json.loads(done.stdout)
    data = data[0] if isinstance(data, list) else data
    assert data["outcome"] in OUTCOMES
    coverage = data["coverage"]
    assert set(coverage) == {"whole", "understood", "not_understood"}
    for tally in coverage["understood"].values():
        assert tally["total"] is None or 0 <= tally["understood"] <= tally["total"]
    if data["outcome"] == "same":
        assert coverage["whole"]
        assert coverage["understood"]
    if data["outcome"] == "not known":
        assert not coverage["whole"]
    return data


def names_the_odd_one(data):
    return any(ODD in gap["what"] and gap["remedy"] for gap in data["coverage"]["not_understood"])


def claims_agreement(text):
    return re.search(r"✓|the same network(?!\.)|is the same|nothing differs|\b0 MACs", text, re.IGNORECASE)


# --- what a network is


def test_diff(zoolens, files):
    assert judged(zoolens("diff", files["a"], files["copy"], "--json"))["outcome"] == "same"  # byte for byte
    done = zoolens("diff", files["a"], files["b"], "--json")
    data = judged(done)
    assert (done.returncode, data["outcome"], data["same"]) == (UNKNOWN_EXIT, "not known", False)
    assert names_the_odd_one(data)
    said = zoolens("diff", files["a"], files["b"]).stdout
    assert "Not known whether" in said
    assert "≥" in said


def test_diff_of_an_unknown_operator_against_a_known_one_accuses_nobody(zoolens, files):
    done = zoolens("diff", files["a"], files["plain"], "--json")
    assert (done.returncode, judged(done)["outcome"]) == (UNKNOWN_EXIT, "not known")


def test_identify(zoolens, files):
    done = zoolens("identify", files["resnet20"], "--json")
    data = judged(done)
    assert (done.returncode, data["outcome"]) == (UNKNOWN_EXIT, "not known")
    assert names_the_odd_one(data)
    done = zoolens("identify", files["resnet18"], "--json")
    data = judged(done)
    assert (done.returncode, data["outcome"]) == (1, "different")  # a ResNet-18 has no convolution 3×3 1→4


def test_cost(zoolens, files):
    done = zoolens("cost", files["a"], "--json")
    data = json.loads(done.stdout)
    assert done.returncode == 0
    assert data["coverage"]["understood"]["MACs"]["total"] is None
    assert "≥" in zoolens("cost", files["a"]).stdout
    assert zoolens("cost", files["a"], "--fail-on", "unknown").returncode == UNKNOWN_EXIT
    assert zoolens("cost", files["plain"], "--fail-on", "unknown").returncode == 0


def test_segments(zoolens, files):
    data = judged(zoolens("segments", files["a"], files["copy"], "--least", 1, "--json"))
    assert data["outcome"] == "not known"
    odd = [segment for segment in data["segments"] if segment["compared_by_name"]]
    assert odd
    assert all(segment["kind"] == "not known" for segment in odd)


# --- what models answer


@pytest.fixture
def evaluated(zoolens, files):
    pytest.importorskip("onnxruntime")
    zoolens("eval", files["a"], files["copy"], files["b"], *QUICK)  # random weights look wrong, which is said
    return files


def test_compare_with_its_cause_and_equiv(zoolens, evaluated):
    done = zoolens("compare", evaluated["a"], evaluated["b"], "--json")
    data = judged(done)
    assert data["outcome"] == "different"  # the answers prove it
    said = zoolens("compare", evaluated["a"], evaluated["b"]).stdout
    assert "not known whether it is the same network" in said
    assert ODD in said
    assert judged(zoolens("equiv", evaluated["a"], evaluated["b"], "--json"))["outcome"] == "different"


def test_query(zoolens, evaluated):
    zoolens("eval", evaluated["plain"], *QUICK)
    asked = ("query", "--ref", evaluated["a"], "--within", "0%")
    whole = judged(zoolens(*asked, "--json"))
    assert (whole["outcome"], whole["coverage"]["understood"]["models"]["understood"]) == ("same", 2)
    network(evaluated["b"], seed=2)  # another file than the one that was evaluated
    late = network(evaluated["folder"] / "late.onnx", seed=3)
    zoolens("eval", late, "--no-accuracy", *QUICK)
    done = zoolens(*asked, "--json")
    data = judged(done)
    assert (done.returncode, data["outcome"]) == (0, "not known")
    reasons = [gap["what"] for gap in data["coverage"]["not_understood"]]
    assert any("whose file is another" in what and "b.onnx" in what for what in reasons)
    assert any("without answers on" in what and "late.onnx" in what for what in reasons)
    assert "1 of 3 models could be judged" in zoolens(*asked).stdout
    assert zoolens(*asked, "--fail-on", "unknown").returncode == UNKNOWN_EXIT


def test_diverge(zoolens, files):
    pytest.importorskip("onnxruntime")
    sides = (f"{files['a']}@onnxruntime", f"{files['b']}@onnxruntime")
    done = zoolens("diverge", *sides, "--data", "demo", "--limit", 4, "--json", "--trust")
    data = judged(done)
    assert data["outcome"] == "different"
    equal = (f"{files['a']}@onnxruntime", f"{files['copy']}@onnxruntime")
    done = zoolens("diverge", *equal, "--data", "demo", "--limit", 4, "--json", "--trust")
    assert judged(done)["outcome"] in ("same", "not known")


CASES = {
    "diff": (test_diff, test_diff_of_an_unknown_operator_against_a_known_one_accuses_nobody),
    "identify": (test_identify,),
    "cost": (test_cost,),
    "segments": (test_segments,),
    "compare": (test_compare_with_its_cause_and_equiv,),
    "equiv": (test_compare_with_its_cause_and_equiv,),
    "diverge": (test_diverge,),
    "query": (test_query,),
}
ELSEWHERE = {  # cases that need trainings, services or zoos: in the rooms themselves
    "audit": "src/zoolens/findings/audit/test_auditing.py",
    "port check": "src/zoolens/training/port/test_unusual_networks.py",
    "port weights": "src/zoolens/training/port/test_sequences.py",
    "port train": "src/zoolens/training/pairs/lockstep/test_lockstep_verdicts.py",
    "serve --check": "src/zoolens/faces/serving/services/test_ladder_verdict.py",
    "eval": "tests/test_evaluate.py",
}


def test_every_command_of_the_docs_has_its_case():
    section = DOCS.read_text().split("## Each command on a real file")[1]
    listed = re.findall(r"^\| `([a-z -]+)` \|", section, re.MULTILINE)
    assert sorted(listed) == sorted([*CASES, *ELSEWHERE])
    for name in ELSEWHERE.values():
        text = (DOCS.parents[1] / name).read_text()
        assert re.search(r"NOT_KNOWN|not known|guessed|coverage", text), name
