from zoolens.base.engine import freed_memory


def test_it_may_be_called_with_and_without_a_c_library_that_can(monkeypatch):
    freed_memory.return_freed_memory()
    monkeypatch.setattr(freed_memory, "_malloc_trim", lambda: None)
    freed_memory.return_freed_memory()
