"""torch.export archives judged before torch opens them.

Loading one can do more than compute: torch evaluates the shape expressions in it with sympy, writes its names and
guards into Python code that it executes, resolves operator names anywhere under `torch`, falls back to unpickling, and
loads shared libraries. So every key, name, operator, expression and entry has to be a known one.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import UNPACKED_AT_LEAST, parse_json, read_entry
from zoolens.inventory.runtimes.model_files.allowlists import allowed, refused
from zoolens.inventory.runtimes.runtime import ModelFiles, TensorSpec
from zoolens.inventory.runtimes.torch.torch_archive import opened, text_of

_HINT: Final = "Export the network alone with torch.export.save, or convert it to ONNX where you trust it."
_ENTRIES: Final = re.compile(
    r"models/model\.json|data/weights/weight_\d+|data/weights/model_weights_config\.json"
    r"|data/constants/tensor_\d+|data/constants/model_constants_config\.json|data/sample_inputs/model\.pt"
    # Up to torch 2.7 an export was laid out differently.
    r"|serialized_exported_program\.json|serialized_(state_dict|constants|example_inputs)\.pt"
    r"|archive_format|archive_version|byteorder|version|\.data/\w+|\.format_version",
    re.ASCII,
)
_PYTHON_OPERATORS: Final = re.compile(
    r"_operator\.(getitem|add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|and_|or_|not_|eq|ne|lt|le|gt|ge)"
    r"|math\.(ceil|floor|trunc|sqrt|pow)|torch\.sym_(int|float|max|min|not|ite|sqrt|sum)|torch\._sym_sqrt"
    r"|torch\.ops\.higher_order\.(cond|while_loop|wrap_with_set_grad_enabled|wrap_with_autocast)"
)
_CONTAINERS: Final = frozenset({"builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"})
_FIELDS: Final = allowed("torch_export")["fields"]
# Fields whose own keys are names from the model, and those that must be empty since they stand for Python objects.
_NAMED: Final = frozenset(
    {"tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "opset_version", "range_constraints"}
    | {"as_string_to_argument", "config", "metadata"}
)
_EMPTY: Final = frozenset({"custom_obj_values", "treespec_namedtuple_fields"})
_NAME: Final = re.compile(r"[\w.\-]{0,300}", re.ASCII)
_METADATA: Final = frozenset({"stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node", "custom"})
_FREE_TEXT: Final = frozenset(
    {"as_string", "as_strings", "torch_version"}
)  # written into code as literals, or not at all

_EXPRESSION_NODES: Final = (
    *(ast.Expression, ast.Call, ast.Name, ast.Load, ast.Constant, ast.keyword, ast.BinOp, ast.UnaryOp, ast.BoolOp),
    *(ast.Compare, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.unaryop, ast.boolop),
    ast.cmpop,
)
_GUARD_NODES: Final = (*_EXPRESSION_NODES, ast.Subscript, ast.Attribute)
_FUNCTIONS: Final = {
    *("Symbol", "Integer", "Rational", "Float", "Add", "Mul", "Pow", "Mod", "Max", "Min", "Eq", "Ne", "Lt", "Le"),
    *("Gt", "Ge", "And", "Or", "Not", "FloorDiv", "CleanDiv", "CeilDiv", "ModularIndexing", "PythonMod", "Where"),
    *("ToFloat", "TruncToInt", "FloorToInt", "CeilToInt", "RoundToInt", "IntTrueDiv", "FloatTrueDiv", "PowByNatural"),
    *("StrictLessThan", "StrictGreaterThan", "LessThan", "GreaterThan", "Equality", "Unequality"),
}
_POWERS: Final = {"Pow", "PowByNatural"}
_LARGEST: Final = 1 << 63
_MOST_CHARACTERS: Final = 10_000


def check_export(path: Path) -> None:
    """Refuse a torch.export archive that holds more than one graph of known operators and plain tensors."""
    with opened(path, "torch.export") as (archive, entries):
        for inner, entry in entries.items():
            if not _ENTRIES.fullmatch(inner):
                raise refused(path.name, f"the entry {inner[:80]!r}", "It may hold compiled code or pickled objects.")
            if inner.endswith(".json"):
                _check_json(path, text_of(archive, entry))
            if inner.endswith(".pt"):
                limit = max(UNPACKED_AT_LEAST, archive.getinfo(entry).file_size)
                _check_plain_tensors(path, inner, read_entry(archive, entry, limit))


def _check_json(path: Path, content: bytes) -> None:
    try:
        _check_value(path, parse_json(content), "")
    except (ValueError, RecursionError) as error:
        raise refused(path.name, "a description that is not plain JSON", _HINT) from error


def _check_value(path: Path, value: Any, field: str) -> None:
    # torch takes whatever is true, a text or a dict too, for yes.
    if field == "use_pickle" and value is not False:
        raise refused(path.name, "pickled tensors", "Export it again from plain tensors.")
    if isinstance(value, dict):
        if field in _EMPTY and value:
            raise refused(path.name, f"{field}, which are Python objects", _HINT)
        for key, inner in value.items():
            _check_key(path, key, field)
            if field == "metadata":
                # For people to read; torch looks names up in it and calls nothing.
                continue
            _check_value(path, inner, key if field not in _NAMED else "")
    elif isinstance(value, list):
        for inner in value:
            _check_value(path, inner, field)
    elif isinstance(value, str):
        _check_text(path, value, field)


def _check_key(path: Path, key: str, field: str) -> None:
    if field == "metadata":
        known = key in _METADATA
    elif field == "range_constraints":
        known = harmless_expression(key)
    elif field in _NAMED:
        known = bool(_NAME.fullmatch(key))
    else:
        known = key in _FIELDS
    if not known:
        raise refused(path.name, f"the key {key[:60]!r}{f' in {field}' if field else ''}", _HINT)


def _check_text(path: Path, text: str, field: str) -> None:
    if field == "target":
        if not _is_operator(text):
            raise refused(path.name, f"the operator {text[:60]!r}", "Only torch's own tensor operators are run.")
    elif field == "expr_str":
        if not harmless_expression(text):
            raise refused(path.name, f"the shape expression {text[:60]!r}", "It is not plain arithmetic.")
    elif field == "guards_code":
        if not harmless_guard(text):
            raise refused(path.name, f"the guard {text[:60]!r}", "It is not a plain comparison of shapes.")
    elif field in ("in_spec", "out_spec"):
        _check_tree(path, parse_json(text) if text else None)
    elif field not in _FREE_TEXT and not _NAME.fullmatch(text):
        raise refused(path.name, f"the name {text[:60]!r}", "torch would write it into code.")


def _is_operator(target: str) -> bool:
    if _PYTHON_OPERATORS.fullmatch(target):
        return True
    match = re.fullmatch(r"torch\.ops\.(\w+)\.(\w+)(\.\w+)?", target, re.ASCII)
    return match is not None and match[1] != "prim" and match[2] in allowed("torch").get(match[1], frozenset())


def _check_tree(path: Path, tree: Any) -> None:
    """A tree of containers as torch writes it: known kinds, and plain names as keys of dictionaries."""
    if isinstance(tree, dict):
        if set(tree) - {"type", "context", "children_spec"} or tree.get("type") not in (None, *_CONTAINERS):
            raise refused(
                path.name, f"the container {str(tree.get('type'))[:60]!r}", "Only tuples, lists and dicts are built."
            )
        context = tree.get("context")
        context = parse_json(context) if isinstance(context, str) else context
        for key in context if isinstance(context, list) else [context]:
            if not (key is None or isinstance(key, int) or (isinstance(key, str) and _NAME.fullmatch(key))):
                raise refused(path.name, f"the name {str(key)[:60]!r}", "torch would write it into code.")
        _check_tree(path, tree.get("children_spec"))
    elif isinstance(tree, list):
        for inner in tree:
            _check_tree(path, inner)
    elif isinstance(tree, str):
        raise refused(path.name, f"the container {tree[:60]!r}", "Only tuples, lists and dicts are built.")


def _check_plain_tensors(path: Path, entry: str, content: bytes) -> None:
    """torch.export unpickles such an entry without restraint when the safe way fails: try the safe way first."""
    import torch

    try:
        torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except Exception as error:
        raise refused(path.name, f"{entry} with more than plain tensors", "Export it again.") from error


# --- expressions


def harmless_expression(text: str) -> bool:
    """Whether sympy, which evaluates this text as Python, can only do a little arithmetic with it."""
    return _is_harmless(text, _EXPRESSION_NODES)


def harmless_guard(text: str) -> bool:
    """Whether a guard, which torch executes as Python, only compares sizes of inputs: L['x'].size()[0] <= 32."""
    return "\n" not in text and _is_harmless(text, _GUARD_NODES)


def _is_harmless(text: str, nodes: tuple[type[ast.AST], ...]) -> bool:
    if len(text) > _MOST_CHARACTERS or not text.isascii():
        return False
    try:
        tree = ast.parse(text, mode="eval")
        return all(isinstance(node, nodes) and _is_plain(node) for node in ast.walk(tree)) and _power_depth(tree) <= 2
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _is_plain(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str(word)):
            return bool(re.fullmatch(r"\w{1,40}", word, re.ASCII))
        case ast.Constant(value=number):
            return number is None or (isinstance(number, int | float) and abs(number) <= _LARGEST)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return name in _FUNCTIONS and (name not in _POWERS or _is_small(arguments[-1:]))
        case ast.Call(func=ast.Attribute(attr=name), args=[], keywords=[]):
            return name in ("size", "stride", "storage_offset")
        case ast.Call():
            return False
        case ast.Attribute(attr=name):
            return name in ("size", "stride", "storage_offset")
        case ast.BinOp(op=ast.Pow(), right=exponent):
            return _is_small([exponent])
        case ast.Name(id=name):
            return bool(re.fullmatch(r"[A-Za-z]\w{0,40}", name, re.ASCII))
    return True


def _is_small(exponents: list[ast.expr]) -> bool:
    """An exponent that is a number up to 8: larger ones make numbers that take for ever."""
    match exponents:
        case [ast.Constant(value=int(number))] | [
            ast.Call(func=ast.Name(id="Integer"), args=[ast.Constant(value=int(number))])
        ]:
            return 0 <= number <= 8
        case [ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number)))]:
            return 0 <= number <= 8
    return False


def _power_depth(node: ast.AST) -> int:
    """How many powers stand inside each other."""
    inner = max((_power_depth(child) for child in ast.iter_child_nodes(node)), default=0)
    power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
    power |= isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _POWERS
    return inner + power


def exported_module(program: Any) -> Any:
    """The program to run, without the guards that torch would execute as Python; a hook checks shapes without them."""
    if "check_guards" in inspect.signature(program.module).parameters:
        return program.module(check_guards=False)
    return program.module()


def declared_inputs(loaded: Any, model: ModelFiles) -> tuple[TensorSpec, ...]:
    """A torch.export program knows its inputs; the other formats need the manifest."""
    nodes = loaded.graph.nodes if model.format == "torch-export" else ()
    values = [(node.name, node.meta.get("val")) for node in nodes if node.op == "placeholder"]
    if not values or any(value is None for _, value in values):
        raise ModelError(
            f"A {model.format} file does not say what its inputs are.", hint="Declare them in the manifest."
        )
    return tuple(
        TensorSpec(
            name, tuple(e if isinstance(e, int) else None for e in value.shape), str(value.dtype).removeprefix("torch.")
        )
        for name, value in values
    )
