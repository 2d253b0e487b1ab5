"""Contract tests that every plug-in passes, ours included, with the models they need; and the plug-in for pytest."""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):  # pytest is only needed by those who run the contracts
    import pytest

    _CONTRACTS = ("executor_contract", "runtime_contract", "store_contract", "task_contract")
    pytest.register_assert_rewrite(*(f"zoolens.testing.{name}" for name in _CONTRACTS))
