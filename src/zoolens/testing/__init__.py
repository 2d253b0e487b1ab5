"""Contract tests that every plug-in passes, ours included, with the models they need; and the plug-in for pytest."""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):  # pytest is only needed by those who run the contracts
    import pytest

    pytest.register_assert_rewrite(
        "zoolens.testing.runtime_contract", "zoolens.testing.store_contract", "zoolens.testing.task_contract"
    )
