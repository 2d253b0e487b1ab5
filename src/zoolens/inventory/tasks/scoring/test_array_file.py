import tempfile
from dataclasses import dataclass

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring.array_file import ArrayFile


@dataclass(frozen=True)
class Part:
    numbers: np.ndarray
    rows: tuple
    name: str


def test_arrays_of_a_value_lie_in_the_file_and_stay_what_they_were():
    random = np.random.default_rng(0)
    flags = random.random((3000, 7)) > 0.5
    part = Part(random.random(1001), (flags, Part(np.arange(5), (), "small")), "large")
    file = ArrayFile()
    first, second = file.keep(part), file.keep(flags.T)
    for _ in range(2):
        assert (first.value.name, first.value.rows[1].name) == ("large", "small")
        np.testing.assert_array_equal(first.value.numbers, part.numbers)
        np.testing.assert_array_equal(first.value.rows[0], flags)
        np.testing.assert_array_equal(second.value, flags.T)
        assert first.value.rows[1].numbers is part.rows[1].numbers
        first.rest()
        second.rest()
    with pytest.raises(ValueError, match="read-only"):
        first.value.numbers[0] = 1


def test_without_large_arrays_nothing_is_written():
    part = Part(np.arange(3), (), "small")
    kept = ArrayFile().keep(part)
    kept.rest()
    assert kept.value is part


def test_a_folder_that_cannot_be_written_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(ZoolensError, match=r"A temporary file in .*nowhere cannot be written: No such file") as caught:
        ArrayFile()
    assert "TMPDIR" in (caught.value.hint or "")
