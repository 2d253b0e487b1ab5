"""Torch archives judged before torch opens them.

A TorchScript or torch.export archive is meant to be data, but loading one can do more than compute: TorchScript may
call `torch.save` and `torch.from_file`; torch.export evaluates the shape expressions it finds with sympy, resolves
operator names anywhere under `torch`, falls back to unpickling, and loads shared libraries. Everything here refuses
by name what a network does not need.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from zoolens.errors import ModelError

_FILE_CALLS: Final = re.compile(r"\b(?:torch|ops\.aten|aten)\.(save|from_file)\b")
_PYTHON_CALLS: Final = re.compile(r"\^\w+\(")  # how TorchScript spells a call back into Python

_EXPORT_ENTRIES: Final = re.compile(
    r"models/model\.json|data/weights/weight_\d+|data/weights/model_weights_config\.json"
    r"|data/constants/tensor_\d+|data/constants/model_constants_config\.json|data/sample_inputs/model\.pt"
    # Up to torch 2.7 an export was laid out differently.
    r"|serialized_exported_program\.json|serialized_(state_dict|constants|example_inputs)\.pt"
    r"|archive_format|archive_version|byteorder|version|\.data/\w+|\.format_version"
)
_OPERATORS: Final = re.compile(
    r"torch\.ops\.(aten|prims|higher_order|quantized|quantized_decomposed|torchvision)\.[\w.]+"
    r"|_operator\.(getitem|add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|and_|or_|not_|eq|ne|lt|le|gt|ge)"
    r"|math\.(ceil|floor|trunc|sqrt|pow)|torch\.sym_(int|float|max|min|not|ite|sqrt|sum)|torch\._sym_sqrt"
)
_TREES: Final = {"builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"}
_EXPRESSION_NODES: Final = (
    ast.Expression,
    ast.Call,
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.keyword,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
)
_EXPRESSION_FUNCTIONS: Final = {
    *("Symbol", "Integer", "Rational", "Float", "Add", "Mul", "Pow", "Mod", "Max", "Min", "Eq", "Ne", "Lt", "Le"),
    *("Gt", "Ge", "And", "Or", "Not", "FloorDiv", "CleanDiv", "CeilDiv", "ModularIndexing", "PythonMod", "Where"),
    *("ToFloat", "TruncToInt", "FloorToInt", "CeilToInt", "RoundToInt", "IntTrueDiv", "FloatTrueDiv", "PowByNatural"),
    *("StrictLessThan", "StrictGreaterThan", "LessThan", "GreaterThan", "Equality", "Unequality"),
}


def check_torchscript(path: Path) -> None:
    """Refuse anything but a TorchScript archive whose code stays inside tensors."""
    with _opened(path, "TorchScript") as archive:
        names = archive.namelist()
        if not any(PurePosixPath(name).name == "constants.pkl" for name in names):
            raise ModelError(
                f"{path.name} is a torch archive but not TorchScript.",
                hint="Weights alone are the format torch-state-dict.",
            )
        for name in names:
            if name.endswith(".py"):
                _check_script(path, archive.read(name).decode("utf-8", "replace"))


def check_export(path: Path) -> None:
    """Refuse a torch.export archive that holds more than one graph of known operators and plain tensors."""
    with _opened(path, "torch.export") as archive:
        for entry in archive.namelist():
            inner = entry.split("/", 1)[1] if "/" in entry else entry
            if not _EXPORT_ENTRIES.fullmatch(inner):
                raise _refused(path, f"the entry {inner!r}", "It may hold compiled code or pickled objects.")
            if inner.endswith("_config.json") and _any(json.loads(archive.read(entry)), "use_pickle", True):
                raise _refused(path, "pickled tensors", "Export it again from plain tensors.")
            if inner in ("models/model.json", "serialized_exported_program.json"):
                _check_program(path, json.loads(archive.read(entry)))
            if inner.endswith(".pt"):
                _check_plain_tensors(path, inner, archive.read(entry))


def _opened(path: Path, kind: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ModelError(
            f"{path.name} is not a {kind} archive: {error}.",
            hint="Is it complete? Weights alone are the format torch-state-dict.",
        ) from error


def _check_script(path: Path, code: str) -> None:
    found = _FILE_CALLS.search(code) or _PYTHON_CALLS.search(code)
    if found:
        raise _refused(path, f"a call of {found.group().rstrip('(')}", "A model has no business with files or Python.")


def _check_program(path: Path, program: Any) -> None:
    for key, value in _pairs(program):
        if key == "target" and isinstance(value, str) and not _OPERATORS.fullmatch(value):
            raise _refused(path, f"the operator {value[:60]!r}", "Only torch's own tensor operators are run.")
        if key == "target" and isinstance(value, str) and _FILE_CALLS.search(value):
            raise _refused(path, f"the operator {value[:60]!r}", "A model has no business with files.")
        if key == "expr_str" and isinstance(value, str) and not harmless_expression(value):
            raise _refused(path, f"the shape expression {value[:60]!r}", "It is not plain arithmetic.")
        if key in ("in_spec", "out_spec", "treespec") and isinstance(value, str):
            _check_tree(path, value)


def _check_tree(path: Path, text: str) -> None:
    for key, value in _pairs(json.loads(text)):
        if key == "type" and value is not None and value not in _TREES:
            raise _refused(path, f"the container {value!r}", "Only tuples, lists and dicts are built.")


def _check_plain_tensors(path: Path, entry: str, content: bytes) -> None:
    """torch.export unpickles such an entry without restraint when the safe way fails: try the safe way first."""
    import torch

    try:
        torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except Exception as error:
        raise _refused(path, f"{entry} with more than plain tensors", "Export it again.") from error


def harmless_expression(text: str) -> bool:
    """Whether sympy, which evaluates this text as Python, can only do arithmetic with it."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in ast.walk(tree):
        if not isinstance(node, _EXPRESSION_NODES):
            return False
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in _EXPRESSION_FUNCTIONS
        ):
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not re.fullmatch(r"\w{1,40}", node.value):
            return False
    return len(text) < 10_000


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, at any depth of a JSON document."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield from found.items()
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)


def _any(document: Any, key: str, value: object) -> bool:
    return any(name == key and found == value for name, found in _pairs(document))


def _refused(path: Path, what: str, hint: str) -> ModelError:
    return ModelError(f"{path.name} carries {what}, which zoolens does not run.", hint=hint)
