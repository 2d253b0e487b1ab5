"""Constants of two files beside each other: what was changed is listed, whatever rounding may do."""

import numpy as np
import pytest

from zoolens.findings.divergence.file_tensors import compared_tensors

RANDOM = np.random.default_rng(5)
FILE = {
    "conv.weight": RANDOM.standard_normal((64, 32, 3, 3)).astype(np.float32),
    "conv.bias": RANDOM.standard_normal(64).astype(np.float32),
    "dense.weight": RANDOM.standard_normal((10, 64)).astype(np.float32),
    "order": np.arange(6),
}


def changed(name, change):
    values = FILE[name].copy()
    return {**FILE, name: change(values)}


def one_channel(values):
    values[3] *= np.float32(1.01)
    return values


def one_number(values):
    values[5, 4, 1, 1] += np.float32(1e-3)
    return values


def test_equal_files_have_nothing_to_list():
    found = compared_tensors(FILE, dict(FILE))
    assert (found.pairs, found.changed, found.rounded, list(found.sentences)) == (4, (), 0, [])


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("conv.weight", one_channel, "conv.weight (288 of 18,432 numbers in 1 of 64 channels, by up to"),
        ("conv.weight", one_number, "conv.weight (1 of 18,432 numbers in 1 of 64 channels, by up to 0.02"),
        ("conv.bias", one_channel, "conv.bias (1 of 64 numbers, by up to"),
        ("dense.weight", lambda values: values.astype(np.float16), "dense.weight (rounded to float16)"),
        ("order", lambda values: values[::-1].copy(), "order (6 of 6 numbers, by up to"),
    ],
)
def test_every_changed_number_is_found(name, change, words):
    found = compared_tensors(FILE, changed(name, change))
    (sentence,) = found.sentences
    assert sentence.startswith("1 of 4 constants has other values in the two files: ")
    assert words in sentence


def test_what_a_converter_computes_anew_is_no_other_value():
    again = {
        name: values * np.float32(1 + 2**-22) if values.dtype.kind == "f" else values for name, values in FILE.items()
    }
    found = compared_tensors(FILE, again)
    assert not found.changed
    assert found.rounded == 3


def test_renamed_tensors_are_found_by_content_and_by_shape():
    other = {f"t{place}": values for place, values in enumerate(FILE.values())}
    found = compared_tensors(FILE, other)
    assert (found.pairs, found.changed, found.only_a) == (4, (), ())
    other["t0"] = one_channel(FILE["conv.weight"].copy())
    (change,) = compared_tensors(FILE, other).changed
    assert (change.a, change.b, change.channels) == ("conv.weight", "t0", 1)
    halves = {name: values.astype(np.float16) if values.dtype.kind == "f" else values for name, values in other.items()}
    assert {change.precision for change in compared_tensors(FILE, halves).changed} == {"float16", ""}


def test_shapes_and_tensors_of_one_file_only():
    found = compared_tensors(FILE, {**FILE, "dense.weight": np.ones((10, 32), np.float32), "more": np.ones((2, 7))})
    assert found.reshaped == ("dense.weight",)
    assert found.only_b == ("more",)
    assert found.as_data()["other_shapes"] == ["dense.weight"]
