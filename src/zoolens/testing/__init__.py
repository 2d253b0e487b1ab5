"""Contract tests that every plug-in passes, ours included, and the small models and servers they need."""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):  # pytest is only needed by those who run the contracts
    import pytest

    pytest.register_assert_rewrite("zoolens.testing.runtime_contract", "zoolens.testing.store_contract")
