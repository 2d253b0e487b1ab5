import pytest

from zoolens.faces.serving.services.definition import ServiceError, parse_services, read_services

FULL = """
services:
  fashion:
    reference: demo:lenet-wide
    runtime: onnxruntime
    within: 85%
    confidence: 95%
    bounds: ["memory <= 100%"]
    objectives:
      latency: {percentile: 99, bound: 50 ms}
      memory: 200 MB
    fallback: {model: demo:mlp-small}
    policy: {name: latency, hold: 1 s}
    batch: {size: 8, delay: 2 ms}
    splits:
      - {model: demo:lenet-torch, weight: 10%}
      - {model: demo:lenet-jax, header: {name: x-tester, value: "yes"}}
    shadow: {model: demo:lenet-deep, share: 5%}
    promise: {share: 10%, violated: remove}
  night:
    reference: demo:lenet-wide
    within: 0.8
    policy: fixed
"""


def test_a_full_definition_is_read():
    services = parse_services(FULL)
    fashion = services["fashion"]
    assert fashion.within == 0.85
    assert fashion.objectives.latency.bound == 0.05
    assert fashion.objectives.memory == 200_000_000
    assert fashion.policy_settings == {"target": 0.05, "percentile": 99.0, "hold": "1 s"}
    assert fashion.batch.delay == 0.002
    assert [split.weight for split in fashion.splits] == [0.1, None]
    assert services["night"].policy_name == "fixed"


def test_the_policy_follows_from_the_objectives():
    services = parse_services("services: {a: {reference: x, within: 0.9}}")
    assert services["a"].policy_name == "fixed"
    timed = "services: {a: {reference: x, within: 0.9, objectives: {latency: {bound: 50 ms}}}}"
    assert parse_services(timed)["a"].policy_name == "latency"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("services:\n  a:\n    reference: x\n    within: 85%\n    wihtin: 1", 5, "services.a.wihtin: unknown key"),
        ("services:\n  a:\n    reference: x", 2, "within: is missing"),
        ("services:\n  a:\n    reference: x\n    within: 850%", 4, "cannot be 850%"),
        ("services:\n  a:\n    reference: x\n    within: 1\n    policy: hasty", 5, "there is no policy 'hasty'"),
        ("services:\n  a:\n    reference: x\n    within: 1\n    policy: latency", 2, "needs objectives.latency"),
        (
            "services:\n  a:\n    reference: x\n    within: 1\n    objectives:\n      latency: {bound: 5 MB}",
            6,
            "seconds",
        ),
        ("services:\n  a:\n    reference: x\n    within: 1\n    batch: {delay: -1}", 5, "greater than or equal to 0"),
        ("services:\n  a:\n    reference: x\n    within: 1\n    batch: {delay: 3600}", 5, "less than or equal to 10"),
        ("services:\n  a:\n    reference: x\n    within: 1\n    batch: {delay: 1 h}", 5, "batch.delay"),
        ("services:\n  a:\n    reference: x\n    within: 1\n    batch: {size: yes}", 5, "batch.size"),
        ("services:\n  a:\n    reference: x\n    within: yes", 4, "True is not an amount: write one such as 85%"),
        ("services:\n  a:\n    reference: x\n    within: 1\n    promise: {share: no}", 5, "False is not an amount"),
        ("services: {}", 1, "at least 1"),
        ("- a", 1, "a mapping"),
        ("services:\n  a b:\n    reference: x\n    within: 1", 2, "should match pattern"),
        ("services:\n  a:\n    reference: x\n    within: 1\n    splits: [{model: y}]", 5, "either weight or header"),
        ("services:\n  a: &x\n    reference: x\n  b: *x", 4, "aliases"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, line, what):
    with pytest.raises(ServiceError) as caught:
        parse_services(text, "service.yaml")
    assert f"line {line}:" in str(caught.value)
    assert what in str(caught.value)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path):
    with pytest.raises(ServiceError, match="cannot be read"):
        read_services(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ServiceError, match="not UTF-8"):
        read_services(tmp_path / "binary.yaml")
