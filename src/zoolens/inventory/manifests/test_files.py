from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ManifestError
from zoolens.inventory.manifests.files import (
    check_manifest,
    dump_manifest,
    parse_manifest,
    read_manifest,
    write_manifest,
)
from zoolens.inventory.manifests.schema import Input, Manifest, Output
from zoolens.inventory.manifests.schema_steps import CenterCrop, Normalize, Resize

GOOD = """\
zoolens: 1
name: good
inputs:
  - shape: [1, 3, 8, 8]
    preprocess:
      - op: resize
        size: 8
      - op: normalize
        mean: [0.5, 0.5, 0.5]
outputs:
  - labels: [cat, dog]
assets:
  - format: onnx
    files:
      - location: good.onnx
"""


def problem_lines(text: str) -> list[tuple[int, str]]:
    manifest, problems = check_manifest(text)
    assert manifest is None
    return [(problem.line, problem.where) for problem in problems]


def test_reads_a_manifest():
    manifest = parse_manifest(GOOD)
    assert manifest.inputs[0].preprocess[0] == Resize(op="resize", size=8)
    assert manifest.outputs[0].labels == ("cat", "dog")


def test_every_problem_carries_its_line():
    text = """\
zoolens: 1
name: bad
bogus: 3
inputs:
  - shape: [1, 3, 224, 224]
    preprocess:
      - op: resize
        size: big
        metod: bilinear
      - op: center_crop
      - {op: normalize, std: [0, 1]}
      - op: blur
      - size: 3
outputs:
  - {task: foo}
assets:
  - format: onnx
    files:
      - location: x.onnx
        sha256: zz
  - format: onnx
    files: []
  - format: torch-state-dict
    files: [{role: model}]
"""
    assert problem_lines(text) == [
        (3, "bogus"),
        (8, "inputs[0].preprocess[0].size"),
        (9, "inputs[0].preprocess[0].metod"),
        (10, "inputs[0].preprocess[1]"),
        (11, "inputs[0].preprocess[2].std"),
        (12, "inputs[0].preprocess[3]"),
        (13, "inputs[0].preprocess[4]"),
        (15, "outputs[0].task"),
        (20, "assets[0].files[0].sha256"),
        (22, "assets[1].files"),
        (24, "assets[2].files[0].location"),
    ]


def test_an_unknown_key_named_like_a_step_is_found_at_its_own_line():
    text = GOOD.replace("        size: 8\n", "        size: 8\n        normalize: true\n")
    assert problem_lines(text) == [(8, "inputs[0].preprocess[0].normalize")]


def test_error_message_lists_source_lines_and_advice():
    with pytest.raises(ManifestError) as caught:
        parse_manifest(GOOD.replace("format: onnx", "formt: onnx"), "my.yaml")
    text = str(caught.value)
    assert "my.yaml is not a valid manifest, 2 problems" in text
    assert "line 13: assets[0].formt: unknown key" in text
    assert "line 13: assets[0].format: is missing" in text


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: &x [1, 2]\nb: *x\n", 2, "aliases"),
        ("name: a\nname: b\n", 2, "given twice"),
        ("a:\n  x: 1\n  y: 2\n  x: 3\n", 4, "given twice"),
        ("? [a]\n: 1\n", 1, "key must be plain text"),
        ("a: 1\nb: !!python/object/apply:os.system ['true']\n", 2, None),
        ("a: 1\nx: !!python/name:os.system ''\n", 2, "YAML tags"),
        (f"zoolens: {'9' * 5000}\n", 1, "digits"),
        ("a: b\n c: d\n", 2, "not valid YAML"),
        ("- a\n- b\n", 1, "mapping"),
        ("", 1, "mapping"),
        ("\x00", 1, "not valid YAML"),
        ("x: !!float many\n", 1, "not written as"),
    ],
)
def test_refuses_hostile_yaml(text: str, line: int, says: str | None):
    manifest, problems = check_manifest(text)
    assert manifest is None
    assert problems[0].line == line or says is None
    assert says is None or says in problems[0].what


def test_a_billion_laughs_are_refused_before_they_are_expanded():
    levels = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    _, problems = check_manifest("\n".join(levels))  # expanded they would be 10¹² words
    assert "aliases" in problems[0].what


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused_without_a_stack_overflow(opening: str):
    _, problems = check_manifest(opening * 200_000)
    assert problems


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "huge.yaml"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)  # sparse
    with pytest.raises(ManifestError, match="1,099,511,627,776 bytes"):
        read_manifest(path)


def test_binary_and_missing_files_are_explained(tmp_path):
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ManifestError, match="not UTF-8"):
        read_manifest(tmp_path / "binary.yaml")
    with pytest.raises(ManifestError, match="No such file"):
        read_manifest(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    "shape", ["[1, 3, 100000, 100000]", "[60000, 60000, 60000, 3]", "[1, 3, -1, 5]", "[1, 0, 2, 2]"]
)
def test_impossible_shapes_are_refused_with_their_line(shape: str):
    assert problem_lines(GOOD.replace("[1, 3, 8, 8]", shape)) == [(4, "inputs[0].shape")]


def test_layout_must_fit_shape():
    assert problem_lines(GOOD.replace("[1, 3, 8, 8]", "[1, 64]")) == [(4, "inputs[0]")]


def test_a_digest_that_yaml_takes_for_a_number_is_explained():
    _, problems = check_manifest(GOOD.replace("good.onnx\n", "good.onnx\n        sha256: 01234567\n"))
    assert (problems[0].line, problems[0].where) == (16, "assets[0].files[0].sha256")
    assert "put it in quotes" in problems[0].what


def test_weights_without_architecture_are_refused():
    assert problem_lines(GOOD.replace("onnx\n    files", "torch-state-dict\n    files")) == [(13, "assets[0]")]


def test_a_byte_order_mark_is_accepted(tmp_path):
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert read_manifest(path).name == "good"


steps = st.one_of(
    st.builds(
        Resize,
        op=st.just("resize"),
        size=st.one_of(st.integers(1, 600), st.tuples(st.integers(1, 9), st.integers(1, 9))),
    ),
    st.builds(
        CenterCrop, op=st.just("center_crop"), size=st.tuples(st.integers(1, 9), st.integers(1, 9)), fraction=st.none()
    ),
    st.builds(
        Normalize,
        op=st.just("normalize"),
        scale=st.floats(-10, 10),
        mean=st.tuples(st.floats(-1, 1)),
        std=st.just((0.5,)),
    ),
)


@settings(max_examples=40, deadline=None)
@given(
    preprocess=st.lists(steps, max_size=4).map(tuple),
    description=st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=60),
    labels=st.none()
    | st.lists(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12), max_size=12).map(tuple),
)
def test_what_is_written_reads_back_the_same(preprocess, description, labels):
    manifest = Manifest(
        name="a/b",
        description=description,
        inputs=(Input(shape=(None, 3, 8, 8), preprocess=preprocess),),
        outputs=(Output(labels=labels),),
    )
    assert parse_manifest(dump_manifest(manifest)) == manifest


def test_written_manifests_have_no_aliases_for_repeated_values(tmp_path):
    step = Normalize(op="normalize", mean=(1.0, 2.0, 3.0))
    manifest = Manifest(
        name="a",
        inputs=(Input(shape=(1, 3, 4, 4), preprocess=(step, step)),),
        outputs=(Output(),),
        attributes={"x": {"y": [1]}},
    )
    write_manifest(manifest, tmp_path / "a.yaml")
    assert read_manifest(tmp_path / "a.yaml") == manifest
    assert yaml.safe_load((tmp_path / "a.yaml").read_text())["zoolens"] == 1


TEXT = """\
zoolens: 1
name: sentiment
inputs:
  - modality: text
    shape: [null, null]
    dtype: int64
    tokenizer:
      max_length: 64
      vocabulary: 30522
      tensors: {input_ids: ids, attention_mask: mask}
outputs:
  - {task: embedding, postprocess: [{op: pool}, {op: l2_normalize}]}
assets:
  - format: onnx
    files:
      - location: model.onnx
      - {location: tokenizer.json, role: tokenizer}
"""


def test_a_text_is_declared_with_its_tokenizer():
    manifest = parse_manifest(TEXT)
    assert manifest.takes_text
    assert manifest.inputs[0].tokenizer.tensors.names == {"input_ids": "ids", "attention_mask": "mask"}
    assert manifest.outputs[0].pooling.method == "mean"
    assert parse_manifest(dump_manifest(manifest)) == manifest


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("modality: text", "modality: array", "modality: text and a tokenizer belong together"),
        ("      - {location: tokenizer.json, role: tokenizer}\n", "", "every asset lists its tokenizer.json"),
        ("[null, null]", "[null, 32]", "every text has 32 tokens by shape: say max_length: 32"),
        ("[null, null]", "[null]", "the shape of a text is"),
        ("int64", "uint8", "the numbers of tokens are int64, int32, float32, not uint8"),
        ("max_length: 64", "max_length: 0", "greater than or equal to 1"),
        ("      vocabulary: 30522\n", "", "vocabulary: is missing"),
        ("input_ids: ids, ", "", "say also which input takes the ids"),
        ("mask: mask", "mask: ids", "two of them name the same input"),
        ("embedding", "classification", "pool and l2_normalize are for vectors"),
        ("{op: pool}, {op: l2_normalize}", "{op: l2_normalize}, {op: pool}", "pool is the first step"),
        ("ids, attention_mask: mask}", "ids}\n      padding: longest", "depend on the others in its batch"),
        ("outputs:", "  - {shape: [1, 3, 8, 8]}\noutputs:", "beside a text, every input has a name"),
        ("assets:", "code: {preprocess: x}\nassets:", "a text is prepared by its tokenizer"),
    ],
)  # fmt: skip
def test_a_text_that_cannot_be_prepared_is_refused(before, after, sentence):
    assert before in TEXT
    with pytest.raises(ManifestError, match=sentence):
        parse_manifest(TEXT.replace(before, after, 1))


def test_what_is_for_texts_is_refused_elsewhere():
    with pytest.raises(ManifestError, match="a file has the role tokenizer, but no input"):
        parse_manifest(GOOD.replace("location: good.onnx", "{location: good.json, role: tokenizer}"))
    with pytest.raises(ManifestError, match="pool is for models that take one text"):
        parse_manifest(GOOD.replace("labels: [cat, dog]", "{task: other, postprocess: [{op: pool}]}"))


@pytest.mark.parametrize("task", ["embedding", "regression", "other"])
def test_steps_that_vectors_do_not_have_are_refused(task):
    """They would be passed over, and the numbers that `select` leaves out would be compared all the same."""
    for step in ("softmax", "select, indices: [0]", "drop_leading"):
        with pytest.raises(ManifestError, match="are for scores of classes, not for task"):
            parse_manifest(GOOD.replace("labels: [cat, dog]", f"{{task: {task}, postprocess: [{{op: {step}}}]}}"))
