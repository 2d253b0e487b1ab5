"""Contract tests that every plug-in passes, ours included, with the models they need; and the plug-in for pytest."""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):  # pytest is only needed by those who run the contracts
    import pytest

    _KINDS = (
        *("runtime", "store", "task", "executor", "zoo", "dataset", "metric", "importer", "counter", "trainer"),
        *("resource", "function", "bound"),
        *("run", "observation", "bulk"),  # parts of "store"
        "observing",  # part of "runtime"
    )
    pytest.register_assert_rewrite(
        "zoolens.testing.runtime_case", *(f"zoolens.testing.{kind}_contract" for kind in _KINDS)
    )
