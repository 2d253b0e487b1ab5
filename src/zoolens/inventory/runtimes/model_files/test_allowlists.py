"""Lists of what model files may name: they are read section by section, and hold what the documentation says."""

from pathlib import Path

import pytest

from zoolens.inventory.runtimes.model_files import allowlists
from zoolens.inventory.runtimes.model_files.allowlists import allowed, refused

LISTS = sorted(path.stem for path in (Path(allowlists.__file__).parent / "allowed").glob("*.txt"))


@pytest.mark.parametrize("name", LISTS)
def test_every_section_holds_names_and_no_remark_is_one(name):
    sections = allowed(name)
    assert sections
    for names in sections.values():
        assert names
        assert not any(word.startswith(("#", "[")) for word in names)


@pytest.mark.parametrize("name", LISTS)
def test_no_name_is_listed_twice_in_a_section(name):
    text = (Path(allowlists.__file__).parent / "allowed" / f"{name}.txt").read_text(encoding="ascii")
    words = [word for line in text.splitlines() if not line.startswith(("#", "[")) for word in line.split()]
    assert len(words) == sum(map(len, allowed(name).values()))


def test_the_lists_are_as_long_as_the_documentation_says():
    assert len(allowed("tensorflow")["operators"]) == 882
    assert len(allowed("torch")["aten"]) == 1095


def test_a_refusal_names_the_file_and_what_it_carries():
    error = refused("net.pt", "a thing", "Do this.")
    assert str(error) == "net.pt carries a thing, which zoolens does not run. Do this."
