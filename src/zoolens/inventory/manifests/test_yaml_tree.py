"""YAML as people write it, with lines."""

import pytest

from zoolens.inventory.manifests.files import _Dumper
from zoolens.inventory.manifests.yaml_tree import MAX_DEPTH, YamlRefused, YamlTree, path_words


def test_every_value_knows_its_line():
    tree = YamlTree("a: 1\nb:\n  - x\n  - c: [5]\n")
    assert tree.value == {"a": 1, "b": ["x", {"c": [5]}]}
    assert tree.find(("b", 1, "c", 0)) == (4, ("b", 1, "c", 0))
    assert tree.find(("b", "union member", 1, "absent")) == (4, ("b", 1))
    assert path_words(("b", 1, "c", 0)) == "b[1].c[0]"


@pytest.mark.parametrize("text", ["1e-3", "1E3", "-2.e4", "1.5e-7"])
def test_exponents_are_numbers(text):
    assert YamlTree(f"rate: {text}").value == {"rate": float(text)}


def test_words_that_look_like_exponents_come_back_as_words():
    import yaml

    label = {"labels": ["1e5", "1e-3", "e5", "cat"]}
    assert YamlTree(yaml.dump(label, Dumper=_Dumper)).value == label


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\na: 2", 2, "given twice"),
        ("a: &x 1\nb: *x", 2, "aliases"),
        ("a: 1\nb: ]", 2, "not valid YAML"),
        ("? [1]\n: 2", 1, "a key must be plain text"),
        ("a: " + "[" * (MAX_DEPTH + 1), 1, "nested more than"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]", 2, "YAML tags such as"),
        ("a: 1\nb: !!python/name:os.system ''", 2, "YAML tags such as"),
        ("a: 1\nb: \x07", 1, "not valid YAML"),
    ],
)
def test_what_is_refused_names_its_line(text, line, words):
    with pytest.raises(YamlRefused, match=words) as refused:
        YamlTree(text)
    assert refused.value.line == line


def test_an_empty_text_has_no_value():
    assert YamlTree("# nothing\n").value is None


@pytest.mark.parametrize("value", [
    '!!int ""', "!!int x", '!!int "_"', '!!int "+"', '!!float ""', "!!float x", "!!bool x", '!!bool ""', "!!set {a}",
    '!!binary "/w=="', "!!omap [a: 1]", "!!python/name:os.system x", "!own x", "9" * 5000,
    "0x" + "f" * 3000, "0b" + "1" * 3900, "0" + "7" * 3000, ":".join(["59"] * 1200), "1:" * 3000 + "1", "9" * 20,
    "-0x8000000000000001", "!!float " + "1" * 5000, "1:" * 3000 + "1.5",
])  # fmt: skip
def test_a_value_that_is_not_what_its_tag_says_is_refused(value):
    with pytest.raises(YamlRefused) as refused:
        YamlTree(f"a: 1\nb: {value}\n")
    assert refused.value.line == 2


@pytest.mark.parametrize("value", ["2026-01-01", "2026-02-30", "!!timestamp x", "=", "2026-01-01 10:00:00"])
def test_dates_stay_texts(value):
    assert YamlTree(f"b: {value}").value == {"b": value.removeprefix("!!timestamp ")}


def test_integers_of_64_bits_are_read():
    text = "a: 0x7fffffffffffffff\nb: -9223372036854775808\nc: 1:30\n"
    assert YamlTree(text).value == {"a": 2**63 - 1, "b": -(2**63), "c": 90}


def test_a_large_integer_as_a_key_is_refused():
    with pytest.raises(YamlRefused, match="larger than"):
        YamlTree(f"0x{'f' * 900}: 1")


def test_keys_may_be_kept_as_they_are_written():
    tree = YamlTree("on: yes\n1.0: x\n~: 2\n", text_keys=True)
    assert tree.value == {"on": True, "1.0": "x", "~": 2}
    assert tree.find(("on",)) == (1, ("on",))
