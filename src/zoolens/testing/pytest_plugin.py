"""The pytest plug-in: a fixture and a marker `zoolens`, so that a model that got worse is a failing test.

pytest imports this module in every project of an environment that has zoolens installed. It therefore imports nothing
but pytest until a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from zoolens.testing.regression import ModelTest

_MARKER = (
    "zoolens(data, **options): what the fixture `zoolens` evaluates models on in this test. `data` is a dataset; the "
    "options are `store` and the keywords of zoolens.evaluate, such as runtimes='onnxruntime' and limit=500."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("zoolens", "models as tests")
    group.addoption(
        "--zoolens-store", metavar="STORE", help="Store of the fixture `zoolens`: a file or a PostgreSQL URL."
    )
    parser.addini("zoolens_store", "Store of the fixture `zoolens`; --zoolens-store goes before it.", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """An error of zoolens in a test with the fixture is shown as its sentence, not as a walk through our code."""
    report = yield
    if call.excinfo is not None and "zoolens" in getattr(item, "fixturenames", ()):
        error = call.excinfo.value
        if any(kind.__module__ == "zoolens.base.errors" for kind in type(error).__mro__):
            report.longrepr = str(error)
    return report


@pytest.fixture
def zoolens(request: pytest.FixtureRequest) -> ModelTest:
    """Evaluates and compares models in a store, and fails the test where a gate says that one got worse."""
    from zoolens.testing.regression import ModelTest

    settings: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("zoolens"))):  # the nearest decides
        if len(mark.args) > 1:
            raise pytest.UsageError(
                "The marker zoolens takes one dataset; give everything else by keyword: zoolens('demo', limit=500)."
            )
        settings |= {**({"data": mark.args[0]} if mark.args else {}), **mark.kwargs}
    named = request.config.getoption("--zoolens-store") or request.config.getini("zoolens_store")
    store = settings.pop("store", None) or named or None
    return ModelTest(store, settings, request.node.user_properties)
