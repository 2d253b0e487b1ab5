from types import ModuleType

import pytest

from zoolens import crosstrain


def test_every_public_name_is_there_and_no_module_took_its_place():
    for name in crosstrain.__all__:
        getattr(crosstrain, name)
    found = {name: getattr(crosstrain, name) for name in crosstrain.__all__}  # again: all modules are imported now
    assert [name for name, value in found.items() if isinstance(value, ModuleType) or not callable(value)] == []


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'trails'"):
        crosstrain.trails  # noqa: B018
