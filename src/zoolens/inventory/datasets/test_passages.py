"""A plain text as passages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.passages import cut_passages


@given(text=st.text(alphabet="ab \nñ€😀", max_size=200), most=st.integers(16, 40))
def test_passages_are_the_text_and_none_is_too_long(text, most):
    passages = list(cut_passages(text, most))
    assert "".join(passages) == text
    assert all(0 < len(passage.encode()) <= most for passage in passages)


def test_a_passage_ends_behind_a_line_else_behind_a_word():
    assert list(cut_passages("one two three\nfour five six seven eight", 16)) == [
        "one two three\n", "four five six ", "seven eight",
    ]  # fmt: skip


def test_a_file_is_a_dataset_of_texts_to_foresee(tmp_path):
    file = tmp_path / "book.txt"
    file.write_text("a line of text\n" * 10, "utf-8")
    dataset = open_dataset(f"passages:{file}?size=40")
    assert (len(dataset), dataset.truth_kind) == (5, "continuation")
    assert dataset.read(0).value[()] == "a line of text\n" * 2


@pytest.mark.parametrize(
    ("content", "option", "says"),
    [
        (b"   \n ", "", "has no text"),
        (b"", "", "has no text|is empty|no sample"),
        (b"a\xff\xfe", "", "not UTF-8"),
        (b"abc", "?size=0", "from 16 to"),
        (b"abc", "?size=many", "not 'many'"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path, content, option, says):
    file = tmp_path / "book.txt"
    file.write_bytes(content)
    with pytest.raises(DatasetError, match=says):
        open_dataset(f"passages:{file}{option}")
