"""TorchScript judged before torch compiles it: every operator that the code calls has to be a known one.

A TorchScript archive holds its code as text in Python's syntax. `torch.jit.load` compiles it and already runs some of
it (`__setstate__`, default values), so the text itself is judged, as a syntax tree: what is called, and every name that
could lead to an operator. Nothing but code in the archive and operators of `allowed/torch.txt` can then be reached.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from zoolens.base.errors import ModelError, first_line
from zoolens.inventory.runtimes.model_files.allowlists import allowed, refused
from zoolens.inventory.runtimes.torch.torch_archive import check_pickle, opened, text_of

_NAMESPACES: Final = allowed("torch")
_ENTRIES: Final = re.compile(
    r"version|byteorder|\.format_version|\.storage_alignment|\.data/(serialization_id|version)"
    r"|(data|constants|bytecode|traced_inputs)/\d+"
    r"|(data|constants|bytecode|traced_inputs|mobile_debug_handles)\.pkl"
    r"|code/__torch__[\w/]*\.py(\.debug_pkl)?|extra/[\w./\- ]+",
    re.ASCII,
)
_HINT: Final = "Only operators that compute on tensors are run. Trace the network alone, or convert it to ONNX."
_ROOTS: Final = frozenset({"torch", "ops", "CONSTANTS", "__torch__"})
_FUNCTIONS: Final = frozenset(
    {"annotate", "unchecked_cast", "uninitialized", "range", "len", "int", "float", "bool", "str", "complex", "min"}
    | {"max", "abs", "isinstance", "list", "dict", "tuple", "zip", "enumerate", "rangelist", "sorted", "hasattr"}
    | {"ord", "chr", "round", "sum", "any", "all"}
)
_BASES: Final = frozenset({"Module", "NamedTuple", "Enum", "Interface", "ModuleInterface", "Exception"})
_NODES: Final = (
    *(ast.Module, ast.ClassDef, ast.FunctionDef, ast.arguments, ast.arg, ast.keyword, ast.Expr, ast.Pass, ast.Break),
    *(ast.Continue, ast.Return, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.If, ast.For, ast.While, ast.With),
    *(ast.withitem, ast.Assert, ast.Raise, ast.Tuple, ast.List, ast.Dict, ast.Subscript, ast.Slice, ast.Starred),
    *(ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context),
)


def check_torchscript(path: Path) -> None:
    """Refuse anything but a TorchScript archive whose code calls nothing but itself and known operators."""
    with opened(path, "TorchScript") as (archive, entries):
        if "constants.pkl" not in entries:
            raise ModelError(
                f"{path.name} is a torch archive but not TorchScript.",
                hint="Weights alone are the format torch-state-dict.",
            )
        registered = _registered()
        for inner, entry in entries.items():
            if not _ENTRIES.fullmatch(inner):
                raise refused(path.name, f"the entry {inner[:80]!r}", "It does not belong to TorchScript.")
            if inner.endswith(".py"):
                _Code(path, registered).check(text_of(archive, entry))
            elif inner.endswith("pkl"):
                check_pickle(path, inner, text_of(archive, entry))


def _registered() -> frozenset[str]:
    """Names that TorchScript also accepts as methods of values, since operators are registered under them."""
    import torch

    names = (schema.name.split("::") for schema in torch._C._jit_get_all_schemas())
    return frozenset(name for space, name in names if space in ("aten", "prim"))


class _Code:
    """One file of code. Every method raises ModelError where it finds what is not known."""

    def __init__(self, path: Path, registered: frozenset[str]) -> None:
        self._path = path
        self._registered = registered

    def check(self, content: bytes) -> None:
        tree = self._parsed(content)
        for node in ast.walk(tree):
            if not isinstance(node, _NODES):
                raise self._refuse(f"a {type(node).__name__} in its code")
        self._check_scope(tree, frozenset())

    def _parsed(self, content: bytes) -> ast.Module:
        """The text as Python reads it, where torch's own reader cannot read it otherwise."""
        # Where the two readers might see different code, the text that we judge would not be the one that runs.
        if re.search(rb"[^\x20-\x7e\n]|\\\n", content):
            raise self._refuse("code with other characters than printable ASCII")
        text = content.decode("ascii")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for token in tokenize.generate_tokens(io.StringIO(text).readline):
                    plain = token.string[:1] in "\"'" and token.string[:3] not in ('"""', "'''")
                    if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and not plain):
                        raise self._refuse(f"{token.string[:40]!r} in its code")
                return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError) as error:
            calls_python = re.search(rb"\^\w+", content)
            what = (
                f"a call of {calls_python.group().decode()} in Python"
                if calls_python
                else "code that is not TorchScript"
            )
            raise self._refuse(what) from error

    def _check_scope(self, scope: ast.AST, local: frozenset[str]) -> None:
        """Check a module, class or function; `local`: the names that are variables where it stands."""
        if isinstance(scope, ast.FunctionDef):
            if scope.decorator_list:
                raise self._refuse("a decorator in its code")
            self._check_name(scope.name)
            local = frozenset(_assigned(scope))
            if reused := sorted(local & (_ROOTS | {"getattr"})):
                raise self._refuse(f"a variable named {reused[0]}")
        if isinstance(scope, ast.ClassDef):
            if scope.decorator_list or scope.keywords:
                raise self._refuse("a decorator in its code")
            for base in scope.bases:
                if not (isinstance(base, ast.Name) and base.id in _BASES):
                    raise self._refuse(f"a class made from {ast.unparse(base)[:60]}")
        for child in ast.iter_child_nodes(scope):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                self._check_scope(child, local)
            elif isinstance(child, ast.expr):
                if not isinstance(scope, ast.ClassDef):  # bases were looked at
                    self._check_expression(child, local)
            else:
                self._check_scope(child, local)

    def _check_expression(self, node: ast.expr, local: frozenset[str]) -> None:
        waiting: list[ast.AST] = [node]
        while waiting:
            part = waiting.pop()
            if isinstance(part, ast.Call):
                waiting += [*part.args, *(keyword.value for keyword in part.keywords), *self._called(part, local)]
            elif isinstance(part, ast.Attribute):
                waiting += self._attribute(part)
            elif isinstance(part, ast.Name):
                if part.id in _ROOTS:
                    raise self._refuse(f"the module {part.id} as a value")
            else:
                waiting += ast.iter_child_nodes(part)

    def _called(self, call: ast.Call, local: frozenset[str]) -> list[ast.AST]:
        """What is left to check of a call's function, once it is known to be harmless."""
        function = call.func
        if isinstance(function, ast.Name):
            if function.id == "getattr":
                return self._by_name(call)
            if function.id not in _FUNCTIONS and function.id not in local:
                raise self._refuse(f"a call of {function.id[:60]}")
            return []
        if not isinstance(function, ast.Attribute):
            raise self._refuse(f"a call of {ast.unparse(function)[:60]}")
        names = _dotted(function)
        if names[:1] == ["torch"]:
            if len(names) != 2 or names[1] not in _NAMESPACES["aten"]:
                raise self._refuse(f"a call of {'.'.join(names)[:80]}")
            return []
        if names[:1] == ["ops"]:
            if len(names) != 3 or names[2] not in _NAMESPACES.get(names[1], frozenset()):
                raise self._refuse(f"a call of {'.'.join(names)[:80]}")
            return []
        return [function]

    def _by_name(self, call: ast.Call) -> list[ast.AST]:
        """`getattr(value, "0")` is how attributes are written whose names are no identifiers."""
        match call.args:
            case [value, ast.Constant(value=str(name))]:
                self._check_name(name)
                return [value]
        raise self._refuse(f"a call of {ast.unparse(call)[:60]}")

    def _attribute(self, node: ast.Attribute) -> list[ast.AST]:
        names = _dotted(node)
        if names[:1] == ["__torch__"]:
            if names[1:3] == ["torch", "classes"] and names[3:4] != ["quantized"]:
                raise self._refuse(f"the class {'.'.join(names)[:80]}")
            return []
        if names[:1] == ["CONSTANTS"]:
            return []
        self._check_name(node.attr)
        return [node.value]

    def _check_name(self, name: str) -> None:
        """A method of this name on any value may be the operator of that name."""
        known = name in _NAMESPACES["aten"] or name in _NAMESPACES["prim"]
        if name in self._registered and not known:
            raise self._refuse(f"a call of {name[:60]}")

    def _refuse(self, what: str) -> ModelError:
        return refused(self._path.name, what, _HINT)


def _dotted(node: ast.expr) -> list[str]:
    """torch.nn.x as its names; [] where it does not begin with a name of our concern."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and node.id in _ROOTS:
        return [node.id, *reversed(names)]
    return []


def _assigned(function: ast.FunctionDef) -> Iterator[str]:
    """Names that are variables in a function: its arguments and what it assigns."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def failure_reason(error: BaseException) -> str:
    """TorchScript puts the cause last, below a listing of its code; everything else puts it first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and "TorchScript interpreter" in lines[0]:
        return lines[-1][:300]
    return first_line(error)
