"""Where a user's things lie: the store and the caches. ZOOLENS_HOME moves all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


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


@contextmanager
def replaced_file(path: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the place of this one at the end, at once; where anything fails, the old one stays."""
    from tempfile import NamedTemporaryFile  # not every command writes

    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("wb", dir=path.parent, delete=False) as file:
        try:
            yield file
            file.close()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
