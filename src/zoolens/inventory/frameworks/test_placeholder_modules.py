import sys

import pytest

from zoolens.inventory.frameworks.placeholder_modules import standing_in


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that nobody has imported."""
    (tmp_path / "heavy_module.py").write_text("light = 'own light'\nheavy = 'own heavy'\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "heavy_module"
    sys.modules.pop("heavy_module", None)


def test_the_stand_in_is_gone_afterwards(module):
    with standing_in(module, light="light"):
        from heavy_module import light
    assert light == "light"
    assert module not in sys.modules


def test_another_attribute_is_the_module_s_own(module):
    with standing_in(module, light="light"):
        import heavy_module

        assert heavy_module.heavy == "own heavy"
        assert sys.modules[module].light == "own light"
    assert sys.modules[module].light == "own light"


def test_what_is_imported_already_stays(module):
    import heavy_module

    with standing_in(module, light="light"):
        assert sys.modules[module] is heavy_module
    assert sys.modules[module] is heavy_module


def test_python_s_own_questions_import_nothing(module):
    with standing_in(module, light="light"):
        assert not hasattr(sys.modules[module], "__path__")
        assert sys.modules[module].light == "light"
