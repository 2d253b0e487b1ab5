"""Arguments that a manifest hands to a library's constructor: plain values, none of which names a place to load from.

A library that builds a network may also fetch or unpickle weights for it, if only it is asked to: by `weights=`,
`checkpoint_path=`, or by a name such as local-dir:/tmp/evil deep inside a nested configuration. The files of a model
are those that its manifest lists, so what would load others is refused wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from zoolens.base.errors import ModelError

# Keys that make torchvision, timm, transformers, Keras or gluon read weights, configurations or code of their own.
_LOADING: Final = re.compile(
    r"weights|weights_backbone|.*pretrained.*|.*checkpoint.*|.*_path|.*cache_dir.*|root|auto_map|trust_remote_code"
    r"|custom_pipelines|.*name_or_path|state_dict|.*_file|.*_dir|init_values_from|input_tensor"
)
_HARMLESS_KEYS: Final = frozenset({"gradient_checkpointing", "use_gradient_checkpointing", "drop_path"})
_PLACE: Final = re.compile(r"[/\\:~\0]|\.\.")
_LONGEST: Final = 200
_DEEPEST: Final = 6


def plain_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, once every key and value in them is known to be harmless; ModelError names the one that is not."""
    for path, key, value in _parts(arguments, ""):
        if _LOADING.fullmatch(key) and key not in _HARMLESS_KEYS and value not in (None, False):
            raise _refused(path, "would load other weights than the manifest's")
        if isinstance(value, str) and (len(value) > _LONGEST or _PLACE.search(value)):
            raise _refused(path, f"is {value[:60]!r}, which reads like a place to load something from")
        if not isinstance(value, str | int | float | bool | list | tuple | Mapping | None):
            raise _refused(path, f"is a {type(value).__name__}, not a plain value")
    return dict(arguments)


def _parts(value: Any, path: str, key: str = "") -> Iterator[tuple[str, str, Any]]:
    """Path, nearest key and value of everything inside, at any depth."""
    if path.count(".") > _DEEPEST:
        raise _refused(path[:60], "is nested too deeply")
    if isinstance(value, Mapping):
        for name, inner in value.items():
            place = f"{path}.{name}" if path else str(name)
            yield place, str(name), inner
            yield from _parts(inner, place, str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield path, key, inner
            yield from _parts(inner, f"{path}.", key)


def _refused(path: str, why: str) -> ModelError:
    return ModelError(f"The argument {path} {why}.", hint="Remove it from the manifest.")
