"""What a server says of its model, as a file: a run's key depends on the content of files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoolens.base.errors import ModelError
from zoolens.base.paths import cache_dir, replaced_file

if TYPE_CHECKING:
    from zoolens.inventory.manifests.schema import AssetFile


def endpoint_file(document: Mapping[str, Any]) -> AssetFile:
    """Write what is said, under a name that depends on it."""
    from zoolens.inventory.manifests.schema import AssetFile

    content = json.dumps(document, sort_keys=True, indent=1).encode()
    path = cache_dir() / "endpoints" / f"{hashlib.sha256(content).hexdigest()[:32]}.json"
    with replaced_file(path) as file:
        file.write(content)
    return AssetFile(location=f"file://{path.absolute()}")


def check_described(path: Path, document: Any, now: Mapping[str, Any], address: str) -> None:
    """ModelError where the server says now what the document of this file does not say."""
    if document != json.loads(json.dumps(now)):
        raise ModelError(
            f"The model at {address} is not the one that {path.name} describes.",
            hint="Was it replaced in the meantime? Run the command again.",
        )
