"""The header of a GGUF file, and what is refused in it."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.llamacpp import gguf_file
from zoolens.inventory.runtimes.llamacpp.gguf_file import TENSOR_TYPES, read_gguf
from zoolens.testing import language_models
from zoolens.testing.language_models import gguf_bytes

MATRIX = np.ones((2, 32), np.float32)


@pytest.fixture
def read(tmp_path):
    def read(content):
        (tmp_path / "model.gguf").write_bytes(content)
        return read_gguf(tmp_path / "model.gguf")

    return read


def text(value):
    return struct.pack("<Q", len(value)) + value


def header(*, version=3, tensors=0, entries=0):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries)


def tensor(name=b"a", extents=(32,), kind=0, offset=0):
    return text(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, kind, offset)


def test_what_a_header_says(tmp_path):
    file = read_gguf(language_models.gguf(tmp_path).path())
    assert file.architecture == "llama"
    assert file.context_length == language_models.CONTEXT
    assert file.types == {"F32": 20}
    assert file.parameters == sum(values.size for values in language_models.weights().values())
    assert file.texts("tokenizer.ggml.tokens")[-3:] == (b"AB", b"<s>", b"</s>")
    assert file.numbers("tokenizer.ggml.token_type").tolist()[-3:] == [1, 3, 3]
    assert file.flag("tokenizer.ggml.add_bos_token") is False
    assert file.number("no.such.key") is None
    content = language_models.gguf(tmp_path).path().read_bytes()
    for stored in file.tensors:
        found = np.frombuffer(content, np.float32, stored.size, stored.offset).reshape(stored.shape)
        np.testing.assert_array_equal(found, language_models.weights()[stored.name])


def test_values_of_another_kind_are_explained(tmp_path):
    file = read_gguf(language_models.gguf(tmp_path).path())
    for ask, key in (
        (file.number, "general.name"),
        (file.text, "llama.block_count"),
        (file.flag, "general.name"),
        (file.texts, "general.name"),
        (file.numbers, "tokenizer.ggml.tokens"),
    ):
        with pytest.raises(ModelError, match=key):
            ask(key)


def test_a_header_that_is_longer_than_what_is_read_first(read, monkeypatch):
    content = gguf_bytes({"a": ["word"] * 1000, "b": np.uint32(3)}, {"m": MATRIX})
    monkeypatch.setattr(gguf_file, "_CHUNK", 16)
    assert read(content).texts("a") == (b"word",) * 1000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"GGML" + bytes(40), "no.* GGUF"),
        (b"", "no.* GGUF"),
        (header()[:12], "within its header"),
        (header(version=1), "version 1"),
        (header(version=0x03000000), "big-endian"),
        (header(tensors=1 << 40), "tensors"),
        (header(entries=1 << 63), "metadata entries"),
        (header(entries=1), "within its header"),
        # Lengths and counts of more than there is.
        (header(entries=1) + struct.pack("<Q", 1 << 62), "within its header"),
        (header(entries=1) + text(b"a") + struct.pack("<IIQ", 9, 8, 1 << 22), "within its header"),
        (header(entries=1) + text(b"a") + struct.pack("<IIQ", 9, 4, 1 << 50), "items of an array"),
        (header(entries=1) + text(b"a") + struct.pack("<IIQ", 9, 9, 1), "nests arrays"),
        (header(entries=1) + text(b"a") + struct.pack("<I", 99), "unknown type 99"),
        (header(entries=1) + text(b"a") + struct.pack("<IB", 7, 2), "truth value"),
        (header(entries=1) + text(b"\xff") + struct.pack("<IB", 7, 1), "UTF-8"),
        (header(entries=1) + text(b"a" * 2000) + struct.pack("<IB", 7, 1), "name of 2,000 bytes"),
        (header(entries=2) + (text(b"a") + struct.pack("<IB", 7, 1)) * 2, "'a' twice"),
        (gguf_bytes({"general.alignment": np.uint32(3)}, {}), "power of two"),
        (gguf_bytes({"general.alignment": np.uint32(0)}, {}), "power of two"),
        (gguf_bytes({"general.alignment": "x"}, {}), "power of two"),
        # Sizes of the network.
        (gguf_bytes({"general.architecture": "llama", "llama.block_count": np.uint32(0)}, {}), "states 0 blocks"),
        (
            gguf_bytes({"general.architecture": "llama", "llama.block_count": np.uint32(1 << 31)}, {"a": MATRIX}),
            "2,147,483,648 blocks for 1 tensors",
        ),
        (
            gguf_bytes({"general.architecture": "llama", "llama.context_length": np.uint32(0)}, {}),
            "context of 0 tokens",
        ),
        # Tensors.
        (header(tensors=1) + tensor(extents=(1,) * 5), "5 axes"),
        (header(tensors=1) + tensor(extents=()), "whole blocks"),
        (header(tensors=1) + tensor(extents=(0,)), "impossible shape"),
        (header(tensors=1) + tensor(extents=(1 << 40, 1 << 40)), "impossible shape"),
        (header(tensors=1) + tensor(extents=(33,), kind=2), "whole blocks of Q4_0"),
        (header(tensors=1) + tensor(kind=77), "type 77"),
        (header(tensors=1) + tensor(), "outside the file"),
        (header(tensors=1) + tensor(offset=(1 << 64) - 32) + bytes(400), "outside the file"),
        (header(tensors=1) + tensor(offset=4) + bytes(400), "outside the file"),
        (header(tensors=2) + tensor(b"a") + tensor(b"b", offset=96) + bytes(400), "overlap"),
        (header(tensors=2) + tensor(b"a") + tensor(b"a", offset=128) + bytes(400), "one name"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(read, content, words):
    with pytest.raises(ModelError, match=words) as caught:
        read(content)
    assert len(str(caught.value)) < 300


def test_a_header_of_more_than_is_read_is_refused(read, monkeypatch):
    monkeypatch.setattr(gguf_file, "_MAX_HEADER_BYTES", 100)
    with pytest.raises(ModelError, match="more than the 100 bytes"):
        read(gguf_bytes({"a": "x" * 200}, {}))


def test_a_cut_or_changed_file_is_refused_or_read(tmp_path):
    """Whatever is done to a header, the answer is a header or one sentence."""
    random = np.random.default_rng(0)
    path = language_models.gguf(tmp_path).path()
    whole = path.read_bytes()
    refused = 0
    for _ in range(300):
        content = bytearray(whole)
        content[int(random.integers(0, 3000))] = int(random.integers(0, 256))
        path.write_bytes(content[: int(random.integers(1, len(whole)))] if random.random() < 0.3 else content)
        try:
            read_gguf(path)
        except ModelError:
            refused += 1
    assert 50 < refused < 300


def test_types_are_those_of_the_library():
    constants = pytest.importorskip("gguf.constants")
    for number, known in TENSOR_TYPES.items():
        kind = constants.GGMLQuantizationType(number)
        assert (known.name, (known.block, known.block_bytes)) == (kind.name, constants.GGML_QUANT_SIZES[kind])


def test_the_library_reads_the_same(tmp_path):
    reader = pytest.importorskip("gguf").GGUFReader(language_models.gguf(tmp_path).path())
    file = read_gguf(language_models.gguf(tmp_path).path())
    assert [(tensor.name, tensor.data_offset) for tensor in reader.tensors] == [
        (tensor.name, tensor.offset) for tensor in file.tensors
    ]
    assert {key for key in reader.fields if not key.startswith("GGUF.")} == set(file.metadata)
