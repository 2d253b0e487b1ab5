"""Loads and calls the function that a user names, and says in one sentence what goes wrong in their code."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from zoolens.base.errors import ModelError, ZoolensError, first_line

_MODULE = "zoolens_user_code"


def call_user_function(code: str, function: str, seed: int | None = None) -> Any:
    """What the function returns. `code` is the path of a Python file or the name of a module; it runs here and now. A
    function that has an argument named `seed` is given it, where there is one; its file is loaded once only."""
    with user_errors(code):
        module = _loaded(code)
        made = getattr(module, function, None)
        if made is None:
            names = sorted(name for name, value in vars(module).items() if callable(value) and not name.startswith("_"))
            raise ModelError(
                f"{_short(code)} has no function {function!r}.",
                hint=f"It has {', '.join(names[:12])}." if names else None,
            )
        if not callable(made):
            raise ModelError(f"{function} in {_short(code)} is no function.", hint="Name one that returns the network.")
        needed = _needed_arguments(made)
        if needed:
            raise ModelError(
                f"{function} in {_short(code)} needs arguments: {', '.join(needed)}.",
                hint="Name a function that can be called without any.",
            )
        return made(seed=seed) if seed is not None and _takes_seed(made) else made()


@contextmanager
def user_errors(code: str) -> Iterator[None]:
    """Turn whatever the user's code raises into a ModelError that names the line of their code."""
    try:
        yield
    except ZoolensError:
        raise
    except SystemExit as error:
        raise ModelError(f"{_place(error, code)} ends its process with {error.code!r}.") from error
    except BaseException as error:  # also KeyboardInterrupt and whatever a user derives from BaseException
        text = first_line(error)
        kind = type(error).__name__
        raise ModelError(f"{_place(error, code)} raises {kind}{f': {text}' if text else ''}"[:600]) from error


@cache
def _loaded(code: str) -> ModuleType:
    path = Path(code)
    if path.suffix != ".py":
        sys.path.insert(0, str(Path.cwd()))
        try:
            return importlib.import_module(code)
        except ModuleNotFoundError as error:
            if error.name and code.split(".")[: len(error.name.split("."))] == error.name.split("."):
                raise ModelError(
                    f"There is no module {code!r}.", hint="Name a file, as file.py:function, or a module on the path."
                ) from error
            raise
    sys.path.insert(0, str(path.absolute().parent))
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module
    spec.loader.exec_module(module)
    return module


def digest_of_user_code(function: str) -> str:
    """Returns the digest of the text of all files that are loaded here and neither of Python, nor of an installed
    package, nor ours, and of the versions of the packages that are loaded."""
    digest = hashlib.sha256(function.encode())
    modules = dict(sys.modules)
    loaded = {str(getattr(module, "__file__", None) or "") for module in modules.values()}
    theirs = [Path(name) for name in loaded if name.endswith(".py") and Path(name).is_absolute() and _is_users(name)]
    for path in sorted(path for path in theirs if path.is_file()):  # torch has modules of files that are nowhere
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    for name in sorted(name for name in modules if "." not in name and name != "zoolens"):
        version = vars(modules[name]).get("__version__")  # getattr would load what a package loads lazily
        digest.update(f"{name} {version}\n".encode() if isinstance(version, str) else b"")
    return digest.hexdigest()


def _takes_seed(function: Any) -> bool:
    try:
        return "seed" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _needed_arguments(function: Any) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [given.name for given in parameters if given.default is inspect.Parameter.empty and given.kind not in free]


def _place(error: BaseException, code: str) -> str:
    """The innermost line of the user's own code; the name of the code where there is none."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{Path(error.filename).name}:{error.lineno}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else _short(code)


def _is_users(filename: str) -> bool:
    """Whether a file is neither of Python, nor of an installed package, nor ours."""
    if filename.startswith("<"):
        return False
    path = Path(filename).resolve()
    ours = Path(__file__).resolve().parents[3]
    library = Path(traceback.__file__).resolve().parent
    return not path.is_relative_to(ours) and not path.is_relative_to(library) and "site-packages" not in path.parts


def _short(code: str) -> str:
    return Path(code).name if code.endswith(".py") else code
