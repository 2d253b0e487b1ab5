import sys
from types import SimpleNamespace

import pytest

from zoolens.base.engine import freed_memory


@pytest.fixture
def allocators(monkeypatch):
    """What both allocators are asked for, in order."""
    asked = []
    pool = SimpleNamespace(release_unused=lambda: asked.append("arrow"))
    monkeypatch.setitem(sys.modules, "pyarrow", SimpleNamespace(default_memory_pool=lambda: pool))
    monkeypatch.setattr(freed_memory, "_malloc_trim", lambda: asked.append)
    return asked


def test_both_allocators_give_back_all_that_they_keep(allocators):
    freed_memory.return_freed_memory()
    assert allocators == [0, "arrow"]


def test_where_the_c_library_cannot_arrow_still_does(allocators, monkeypatch):
    monkeypatch.setattr(freed_memory, "_malloc_trim", lambda: None)
    freed_memory.return_freed_memory()
    assert allocators == ["arrow"]


def test_arrow_is_not_imported_for_it(allocators, monkeypatch):
    monkeypatch.delitem(sys.modules, "pyarrow")
    freed_memory.return_freed_memory()
    assert allocators == [0]
    assert "pyarrow" not in sys.modules


def test_this_machines_c_library_is_asked_without_harm():
    freed_memory.return_freed_memory()
    if sys.platform == "linux" and (trim := freed_memory._malloc_trim()) is not None:
        assert trim(0) in (0, 1)
