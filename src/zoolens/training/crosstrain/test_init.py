import ast
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

from zoolens.training import crosstrain


def test_every_public_name_is_there_and_no_module_took_its_place():
    for name in crosstrain.__all__:
        getattr(crosstrain, name)
    found = {name: getattr(crosstrain, name) for name in crosstrain.__all__}  # again: all modules are imported now
    assert [name for name, value in found.items() if isinstance(value, ModuleType) or not callable(value)] == []


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'trails'"):
        crosstrain.trails  # noqa: B018


def test_the_calls_in_the_documentation_fit_the_functions():
    page = (Path(__file__).parents[4] / "docs" / "crosstrain.md").read_text(encoding="utf-8")
    called = set()
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("crosstrain."):
                name = ast.unparse(node.func).removeprefix("crosstrain.")
                signature = inspect.signature(getattr(crosstrain, name))
                signature.bind(*node.args, **{one.arg: one.value for one in node.keywords})
                called.add(name)
    assert {"find", "model", "run_plan", "explain", "report_study", "export_study"} <= called
