"""What `import zoolens` offers: every name is typed, listed, described and imported on first use."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import zoolens

SOURCES = Path(__file__).parent.parent / "src"
LAZY = [
    "zoolens",
    "zoolens.findings.tracing",
    "zoolens.training.crosstrain",
    "zoolens.training.port",
    "zoolens.inventory.catalog",
    "zoolens.faces.serving.plane",
]


def imported_for_types(package):
    """Where a type checker finds each name: "module:name", or a module alone."""
    tree = ast.parse(Path(importlib.import_module(package).__file__).read_text())
    (guard,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    found = {}
    for node in guard.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                is_module = (SOURCES / module.replace(".", "/")).with_suffix(".py").exists()
                is_package = (SOURCES / module.replace(".", "/") / "__init__.py").exists()
                place = module if is_module or is_package else f"{node.module}:{alias.name}"
                found[alias.asname or alias.name] = place
    for node in guard.body:
        if isinstance(node, ast.Assign):
            pairs = [(node.targets[0], node.value)]
            if isinstance(node.value, ast.Tuple):
                pairs = zip(node.targets[0].elts, node.value.elts, strict=True)
            for target, value in pairs:
                found[target.id] = f"{found[value.value.id]}:{value.attr}"
    return found


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_and_python_find_the_same_names_at_the_same_places(package):
    module = importlib.import_module(package)
    for_types = imported_for_types(package)
    assert {name: for_types.get(name) for name in module._WHERE} == module._WHERE


@pytest.mark.parametrize("package", LAZY)
def test_every_name_is_there_and_no_module_took_its_place(package):
    module = importlib.import_module(package)
    names = [name for name, where in module._WHERE.items() if ":" in where]
    for name in names:
        getattr(module, name)
    found = {name: getattr(module, name) for name in names}  # again: all modules are imported now
    assert [name for name, value in found.items() if isinstance(value, ModuleType) or not callable(value)] == []


@pytest.mark.parametrize("name", ["crosstrain", "port", "tracing"])
def test_rooms_with_public_names_are_modules(name):
    """`import zoolens.port` and `zoolens.port` are one module, whichever comes first, and cost as little."""
    code = (
        f"import sys, zoolens.{name} as imported\n"
        "print(sorted({'numpy', 'pydantic', 'sqlalchemy'} & set(sys.modules)))\n"
        f"from zoolens.{name} import {getattr(zoolens, name).__all__[0]}\n"
        "import zoolens\n"
        f"print(imported is zoolens.{name} is sys.modules[imported.__name__])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "True"]


@pytest.mark.parametrize("package", LAZY)
def test_names_can_be_completed(package):
    module = importlib.import_module(package)
    assert set(module.__all__) <= set(dir(module))
    assert [name for name in dir(module) if name not in module.__all__ and not name.startswith("__")] == []


@pytest.mark.parametrize("package", LAZY)
def test_other_names_are_refused(package):
    with pytest.raises(AttributeError, match="no attribute 'evalute'") as caught:
        importlib.import_module(package).evalute  # noqa: B018
    assert caught.value.name == "evalute"


def test_import_costs_nothing():
    code = (
        "import sys, zoolens\n"
        "dir(zoolens)\n"
        "heavy={'numpy','pydantic','sqlalchemy','pyarrow','rich','inspect','pandas','click','yaml'}\n"
        "print(sorted(heavy & set(sys.modules)), sorted(name for name in sys.modules if name.startswith('zoolens.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = ["", ".present", ".present.display_hook", ".public", ".public.lazy_names", ".version"]
    assert done.stdout.strip() == f"[] {[f'zoolens.base{name}' for name in ours]}"


RIGHT = """
import zoolens
import zoolens.port as port
from zoolens.crosstrain import load_study
from zoolens.tracing import recording

outcomes = zoolens.evaluate(["demo:*"], "demo", runtimes="onnxruntime", batches=(1, 8))
one = outcomes[0].run
report = zoolens.compare("a", "b")
print(report.cause, zoolens.query("CORR a", size="30%").best)
with zoolens.open_store() as store, zoolens.trusting():
    print(store.runs(model="demo:*"), zoolens.crosstrain.studies(store))
checked = zoolens.port.check("a.py:net", "b.py:net", ["4"])
print(port.check("a.py:net", "b.py:net", ["4"]).same, load_study("mine").name)
print(checked.same, zoolens.tracing.load_trace("last").run.id)
"""
WRONG = {  # a line -> what mypy calls the mistake
    'zoolens.evaluate("demo:*", "demo", runtime="x")': "call-arg",
    "zoolens.evaluate(3)": "arg-type",
    'zoolens.compare("a")': "call-arg",
    'zoolens.compare("a", "b").verdit': "attr-defined",
    "zoolens.evalute": "attr-defined",
    'zoolens.query("CORR a", limit="x")': "arg-type",
    'zoolens.port.check("a", "b", 3)': "arg-type",
    "zoolens.crosstrain.load_study(3)": "arg-type",
    "zoolens.tracing.load_trace(3)": "arg-type",
    "import zoolens.port; zoolens.port.check(3)": "call-arg",
    "zoolens.trace('a')[0].nothing": "attr-defined",
}


@pytest.mark.slow
def test_mypy_sees_the_types_of_public_names(tmp_path):
    """Slow: mypy reads the whole package, for 20 seconds where it was not read before."""
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(RIGHT)
    wrong.write_text("\n".join(["import zoolens", *WRONG]))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(right), str(wrong)]
    settings = ["--config-file", str(SOURCES.parent / "pyproject.toml"), "--no-error-summary"]
    env = {**os.environ, "MYPYPATH": str(SOURCES)}
    done = subprocess.run([*command, *settings], capture_output=True, text=True, check=False, cwd=tmp_path, env=env)
    lines = [line for line in done.stdout.splitlines() if ": error: " in line]
    found = {int(line.split(":")[1]): line.rpartition("[")[2].rstrip("]") for line in lines}
    assert [line for line in lines if "right.py" in line] == [], done.stdout
    assert found == {2 + place: kind for place, kind in enumerate(WRONG.values())}, done.stdout


def test_public_functions_have_types():
    """The quick half of the test above: no public function takes or returns anything at all."""
    untyped = []
    for package in (zoolens, zoolens.crosstrain, zoolens.port, zoolens.tracing):
        for name in package.__all__:
            function = getattr(package, name)
            annotations = getattr(function, "__annotations__", {})
            if callable(function) and not isinstance(function, type) and "return" not in annotations:
                untyped.append(f"{package.__name__}.{name}")
    assert untyped == []
