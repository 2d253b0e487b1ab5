"""Where a user's things lie: the store and the caches. ZOOLENS_HOME moves all of them."""

from __future__ import annotations

import os
from pathlib import Path


def data_dir() -> Path:
    """Observations: precious."""
    home = os.environ.get("ZOOLENS_HOME")
    if home:
        return Path(home) / "data"
    from platformdirs import user_data_path

    return user_data_path("zoolens", appauthor=False)


def cache_dir() -> Path:
    """Downloads, environments, catalogues: may be deleted at any time."""
    home = os.environ.get("ZOOLENS_HOME")
    if home:
        return Path(home) / "cache"
    from platformdirs import user_cache_path

    return user_cache_path("zoolens", appauthor=False)
