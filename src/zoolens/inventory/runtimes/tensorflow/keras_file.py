"""Keras files judged before Keras builds them: a configuration names classes and functions, and may carry code.

Every class, activation, recorded function and configuration key has to be one of `allowed/keras.txt`. What the weights
beside the configuration may do is judged in `keras_sizes`.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import open_archive, open_regular, parse_json, read_entry
from zoolens.inventory.runtimes.model_files.allowlists import allowed, refused
from zoolens.inventory.runtimes.model_files.model_reading import MAX_TEXT_BYTES

_HINT: Final = "Ask the maker for a file of plain Keras layers, or convert it to ONNX where you trust it."
_ALLOWED: Final = allowed("keras")
_ENTRIES: Final = frozenset({"metadata.json", "config.json", "model.weights.h5"})
_TUPLE_KEYS: Final = frozenset({"class_name", "items"})
_OBJECT_KEYS: Final = frozenset(
    {"module", "class_name", "config", "registered_name", "build_config", "compile_config", "name", "inbound_nodes"}
    | {"shared_object_id", "keras_version", "backend"}
)
_RECORDED_CALLS: Final = frozenset({"TFOpLambda", "SlicingOpLambda"})
_PLAIN_KEY: Final = re.compile(r"[\w/.:\- ]{0,200}", re.ASCII)

# Where Keras looks a class up, by the module that the file names; the empty one is Keras 2, which looks by kind.
_PREFIX: Final = r"(?:tf_)?keras(?:\.src)?"
_MODULES: Final[Mapping[str, frozenset[str]]] = {
    rf"{_PREFIX}\.layers(\.\w+)*|{_PREFIX}\.applications\.convnext": _ALLOWED["layers"] | _RECORDED_CALLS,
    rf"{_PREFIX}(\.models|\.engine|\.models\.\w+|\.engine\.\w+)?": _ALLOWED["models"]
    | _ALLOWED["policies"]
    | {"InputLayer"},
    rf"{_PREFIX}\.initializers(\.\w+)*|tensorflow\.python\.ops\.init_ops_v2": _ALLOWED["initializers"],
    rf"{_PREFIX}\.regularizers(\.\w+)*": _ALLOWED["regularizers"],
    rf"{_PREFIX}\.constraints(\.\w+)*": _ALLOWED["constraints"],
    rf"{_PREFIX}\.(dtype_policies(\.\w+)*|mixed_precision(\.\w+)*)": _ALLOWED["policies"],
    rf"{_PREFIX}\.ops\.(numpy|nn|math|core|image|linalg)": _ALLOWED["operations"],
}
_CLASSES: Final = ("layers", "models", "initializers", "regularizers", "constraints", "policies", "values")
_ANY_MODULE: Final = _RECORDED_CALLS.union(*(_ALLOWED[kind] for kind in _CLASSES))


def check_keras(path: Path) -> None:
    """Refuse a .keras file that holds more than plain layers and their weights."""
    check_name(path, (".keras",), b"PK\x03\x04")
    try:
        with open_archive(path) as archive:
            strange = next((name for name in archive.namelist() if name not in _ENTRIES), None)
            if strange is not None:
                raise _refused(path.name, f"the entry {strange[:80]!r}")
            config = parse_json(read_entry(archive, "config.json", MAX_TEXT_BYTES))
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, EOFError) as error:
        raise ModelError(f"{path.name} is not a complete .keras file: {error}.", hint="Fetch it again.") from error
    check_configuration(path.name, config)


def check_keras_h5(path: Path) -> int:
    """Refuse an .h5 file that holds more than plain layers and their weights. Gives the major version of the Keras that
    wrote it: Keras 2 does not read what Keras 3 has written."""
    import h5py

    check_h5_name(path)
    try:
        with h5py.File(path, "r") as file:
            text, version = file.attrs.get("model_config"), str(file.attrs.get("keras_version") or "")
        config = None if text is None else _configuration(text)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, ArithmeticError) as error:
        raise ModelError(f"{path.name} is not a complete HDF5 file: {error}.", hint="Fetch it again.") from error
    if config is None:
        raise ModelError(
            f"{path.name} holds weights but no model.", hint="Save the whole model, or describe its architecture."
        )
    check_configuration(path.name, config)
    return 3 if version.lstrip("b'").startswith("3.") else 2


def _configuration(text: Any) -> Any:
    if not isinstance(text, str | bytes):
        raise TypeError("the configuration of its model is not text")
    return parse_json(text)


def check_h5_name(path: Path) -> None:
    check_name(path, (".h5", ".hdf5"), b"\x89HDF\r\n\x1a\n")


def check_name(path: Path, suffixes: tuple[str, ...], begins: bytes) -> None:
    """Keras decides by the name which reader to use, and a file can be a zip archive and HDF5 at once."""
    if not path.name.endswith(suffixes):
        raise ModelError(
            f"{path.name} does not end in {' or '.join(suffixes)}, as Keras needs it to.",
            hint="Name the file so, or correct the format in the manifest (keras or keras-h5).",
        )
    with open_regular(path) as file:
        # What was checked as one format must not be read as the other.
        if file.read(len(begins)) != begins:
            raise ModelError(
                f"{path.name} is not a {suffixes[0]} file: its first bytes do not match.", hint="Fetch it again."
            )


# --- configurations


def check_configuration(name: str, config: Any) -> None:
    """Refuse a model's configuration unless everything it names is known to be a plain layer or a part of one."""
    kind = config.get("class_name") if isinstance(config, dict) else type(config).__name__
    if not isinstance(config, dict) or not isinstance(kind, str) or kind not in _ALLOWED["models"]:
        raise _refused(name, f"a model of class {str(kind)[:80]!r}")
    try:
        _check_object(name, {key: value for key, value in config.items() if key != "compile_config"})
    except RecursionError as error:
        raise _refused(name, "a configuration nested too deeply") from error


def _check_object(name: str, part: Mapping[str, Any]) -> None:
    kind, module, config = part.get("class_name"), part.get("module"), part.get("config")
    if kind == "__tuple__" and "items" in part:
        _check_tuple_keys(name, part)
        _check_value(name, part["items"])
        return
    if strange := sorted(set(part) - _OBJECT_KEYS):
        raise _refused(name, f"the key {strange[0][:80]!r} of {str(kind)[:80]!r}")
    if kind == "function":
        _check_function(name, part)
        return
    if not isinstance(kind, str) or not _is_known(kind, module):
        raise _refused(name, f"the class {str(kind)[:80]!r}{f' of {str(module)[:80]}' if module else ''}")
    if part.get("registered_name") not in (None, "", kind):
        raise _refused(name, f"the registered class {str(part['registered_name'])[:80]!r}")
    if part.get("compile_config"):
        raise _refused(name, "a compiled model inside another")
    if kind in _RECORDED_CALLS:
        _check_recorded_call(name, config)
    else:
        _check_value(name, config)
    _check_arguments(name, part.get("build_config"), objects=False)
    _check_arguments(name, part.get("inbound_nodes"), objects=True)


def _is_known(kind: str, module: Any) -> bool:
    if module is None:
        return kind in _ANY_MODULE
    if kind in _ALLOWED["values"]:
        return bool(module == "builtins")
    return isinstance(module, str) and any(
        re.fullmatch(pattern, module) and kind in classes for pattern, classes in _MODULES.items()
    )


def _check_function(name: str, part: Mapping[str, Any]) -> None:
    module, function = str(part.get("module")), part.get("config")
    known = module == "builtins" or re.fullmatch(rf"{_PREFIX}\.activations(\.\w+)*", module)
    if (
        not known
        or not isinstance(function, str)
        or function not in _ALLOWED["activations"]
        or part.get("registered_name") not in (None, "function", function)
    ):
        raise _refused(name, f"the function {str(function)[:80]!r} of {module[:80]}")


def _check_recorded_call(name: str, config: Any) -> None:
    function = config.get("function") if isinstance(config, dict) else None
    if not isinstance(function, str) or function not in _ALLOWED["tensorflow_calls"]:
        raise _refused(name, f"a call of tf.{str(function)[:80]}")
    _check_value(name, {key: value for key, value in config.items() if key != "function"})


def _check_value(name: str, value: Any, key: str = "") -> None:
    """A part of a configuration: objects that are known, dicts with known keys, and plain values."""
    if isinstance(value, dict):
        if "class_name" in value:
            _check_object(name, value)
            return
        for inner, part in value.items():
            if inner not in _ALLOWED["keys"]:
                raise _refused(name, f"the configuration key {inner[:80]!r}")
            if inner in ("input_layers", "output_layers"):
                _check_arguments(name, part, objects=False)
            else:
                _check_value(name, part, inner)
    elif isinstance(value, list):
        for part in value:
            _check_value(name, part, key)
    elif isinstance(value, str) and key.endswith("activation") and value not in _ALLOWED["activations"]:
        raise _refused(name, f"the activation {value[:80]!r}")


def _check_tuple_keys(name: str, part: Mapping[str, Any]) -> None:
    """Keras passes the whole mapping on where it holds more than a tuple needs."""
    if strange := sorted(set(part) - _TUPLE_KEYS):
        raise _refused(name, f"the key {strange[0][:80]!r} of a tuple")


def _check_arguments(name: str, value: Any, *, objects: bool) -> None:
    """Arguments of a call, whose names are free. Shapes and places have no `objects` but tuples; how layers were called
    may have any object that is known."""
    if isinstance(value, dict) and objects and "class_name" in value:
        _check_object(name, value)
    elif isinstance(value, dict):
        if value.get("class_name", "__tuple__") != "__tuple__":
            raise _refused(name, f"the class {str(value['class_name'])[:80]!r} where a shape belongs")
        if "class_name" in value:
            _check_tuple_keys(name, value)
        for key, part in value.items():
            if not _PLAIN_KEY.fullmatch(key):
                raise _refused(name, f"an argument named {key[:80]!r}")
            _check_arguments(name, part, objects=objects)
    elif isinstance(value, list):
        for part in value:
            _check_arguments(name, part, objects=objects)


def _refused(name: str, what: str) -> ModelError:
    return refused(name, what, _HINT)
