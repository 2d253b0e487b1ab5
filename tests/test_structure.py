"""The house rules that a newcomer cannot see from one file."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from scripts import measure_house

from zoolens.base import plugins

PACKAGE = Path(__file__).parent.parent / "src" / "zoolens"

# Wings and the rooms of each, from below. Each may import only from those before it.
WINGS = {
    "base": [
        "errors", "version", "paths", "progress", "recent_values", "phrases", "safety", "plugins", "statistics",
        "numerics", "verdicts", "protocol", "engine", "store", "present", "public",
    ],
    "inventory": ["frameworks", "manifests", "zoos", "runtimes", "catalog", "datasets", "preprocess", "tasks", "fleet"],
    "findings": [
        "graph", "measure", "endpoints", "comparisons", "plans", "tracing", "twins", "divergence", "audit", "index",
        "queries",
    ],
    "training": ["pairs", "crosstrain", "port"],
    "faces": ["serving", "load", "notebook", "ui", "cli"],
}  # fmt: skip
# Beside the wings: what is entered through entry points, and the contracts that plug-ins are held to.
BESIDE = ["contrib", "testing"]
ORDER = [*(f"{wing}.{room}" for wing, rooms in WINGS.items() for room in rooms), *BESIDE]

# Framework -> the only modules that may import it; the makers of test models in `testing` may import any.
FRAMEWORKS = {
    "onnxruntime": ["inventory/runtimes/onnxruntime/onnxruntime_runtime.py"],
    "gguf": ["inventory/runtimes/llamacpp/gguf_values.py"],
    "xllamacpp": [],  # its shared library is opened by ctypes
    "openvino": ["inventory/runtimes/openvino/openvino_runtime.py"],
    "ai_edge_litert": ["inventory/runtimes/litert/litert_runtime.py", "inventory/runtimes/litert/tflite_file.py"],
    "cv2": ["inventory/runtimes/opencv/opencv_runtime.py"],
    "torch": [
        "inventory/runtimes/torch/*.py",
        "inventory/zoos/torchvision.py",
        "inventory/zoos/timm.py",
        "inventory/frameworks/torchvision_shim.py",
        "findings/graph/importers/torch/*.py",
        "findings/graph/counters/*.py",
        "training/crosstrain/training/trainers/torch*.py",
        "training/crosstrain/training/live/*torch*.py",
        "training/pairs/networks/torch*.py",
        "training/pairs/reading/torch*.py",
        "training/pairs/optimizers/torch*.py",
        "training/pairs/live/torch/*.py",
        "training/pairs/live/keras/keras_steps.py",
    ],
    "torchvision": [
        "inventory/runtimes/torch/*.py",
        "inventory/zoos/torchvision.py",
        "inventory/frameworks/torchvision_shim.py",
        "findings/graph/importers/torch/*.py",
        "training/crosstrain/training/trainers/torch*.py",
        "training/crosstrain/training/live/*torch*.py",
    ],
    "timm": ["inventory/runtimes/torch/*.py", "inventory/zoos/timm.py", "findings/graph/importers/torch/*.py"],
    "transformers": [
        "findings/graph/importers/torch/*.py",
        "inventory/runtimes/torch/*.py",
        "inventory/zoos/transformers.py",
    ],
    "tensorflow": [
        "inventory/runtimes/tensorflow/*.py",
        "contrib/tensorflow_models/*.py",
        "findings/graph/counters/tensorflow.py",
        "training/crosstrain/training/trainers/keras*.py",
        "training/crosstrain/training/live/*keras*.py",
        "training/pairs/live/keras/*.py",
    ],
    "tf_slim": ["contrib/tensorflow_models/*.py"],
    "official": ["contrib/tensorflow_models/*.py"],
    "keras": [
        "inventory/runtimes/tensorflow/*.py",
        "inventory/zoos/keras.py",
        "findings/graph/importers/keras/*.py",
        "findings/graph/counters/tensorflow.py",
        "training/crosstrain/training/trainers/keras*.py",
        "training/crosstrain/training/live/*keras*.py",
        "training/pairs/networks/keras_framework.py",
        "training/pairs/reading/keras*.py",
        "training/pairs/optimizers/keras*.py",
        "training/pairs/live/keras/*.py",
    ],
    "tf_keras": ["inventory/runtimes/tensorflow/*.py", "contrib/tensorflow_models/*.py"],
    "h5py": ["inventory/runtimes/tensorflow/keras*.py"],
    "jax": [
        "inventory/runtimes/jax/*.py",
        "findings/graph/importers/jax/*.py",
        "training/crosstrain/training/trainers/keras*.py",
        "training/crosstrain/training/live/*keras*.py",
        "training/pairs/networks/jax_framework.py",
        "training/pairs/networks/jax_modules.py",
        "training/pairs/networks/jax_training_modes.py",
        "training/pairs/live/jax/*.py",
        "training/pairs/live/keras/keras_steps.py",
    ],
    "pynvml": ["base/engine/nvml.py"],
    "optuna": ["training/crosstrain/study/search/sampler.py"],
    "sklearn": ["training/crosstrain/study/analysis/*.py"],
    "ray": ["base/engine/executors/ray.py", "faces/serving/cluster/ray.py"],
    "safetensors": ["training/crosstrain/training/weights.py"],
    "mxnet": ["inventory/runtimes/mxnet/mxnet_runtime.py", "contrib/gluon/*.py"],
    "onnx": [
        "inventory/runtimes/onnx/*.py",
        "inventory/zoos/onnx.py",
        "findings/graph/counters/*.py",
        "findings/graph/onnx_writer/*.py",
    ],
    "huggingface_hub": ["inventory/zoos/huggingface.py", "inventory/zoos/timm.py", "inventory/manifests/hub.py"],
    "pandas": ["base/store/*.py", "base/present/results.py", "findings/queries/answers/frame.py"],
    "psycopg": ["base/store/*.py"],
    "vl_convert": ["base/present/images.py"],
    "jinja2": ["base/present/pages.py", "inventory/preprocess/chat_worker.py"],
    "soundfile": ["inventory/datasets/sound/decoding.py"],
    "soxr": ["inventory/preprocess/sound/resampling.py"],
}


@cache
def sources():
    return [path for path in sorted(PACKAGE.rglob("*.py")) if not path.name.startswith(("test_", "conftest"))]


@dataclass(frozen=True)
class Import:
    """One statement's import of a module. `names`: what `from module import` names, none for `import module`.
    `at_top`: at module level. `for_types`: under `if TYPE_CHECKING`, so that it is never executed."""

    module: str
    names: tuple[str, ...]
    at_top: bool
    for_types: bool


@dataclass(frozen=True)
class Contents:
    """What the rules need of a file. The tree itself is not kept: those of all files are millions of objects."""

    imports: tuple[Import, ...]
    outline: measure_house.Outline


@cache
def contents(path):
    source = measure_house.parsed(path, PACKAGE)
    top = {id(node) for node in source.tree.body}
    guards = [node for node in source.statements if isinstance(node, ast.If) and _is_for_types(node)]
    typing = {id(inner) for guard in guards for inner in measure_house.statements(guard)}
    found = []
    for node in source.statements:
        place = id(node) in top, id(node) in typing
        if isinstance(node, ast.Import):
            found += [Import(alias.name, (), *place) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(Import(node.module, tuple(alias.name for alias in node.names), *place))
    return Contents(tuple(found), measure_house.outline(source))


def statements(path):
    return contents(path).imports


def _is_for_types(node):
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports(path):
    """(module, is at module level) for every import of a file."""
    for found in statements(path):
        yield found.module, found.at_top
        if found.module == "zoolens":
            yield from ((f"zoolens.{name}", found.at_top) for name in found.names)


def room(module):
    """The room of a module of ours ("base.store", "contrib"), or None: of a wing itself and of what is not ours."""
    parts = module.split(".")[1:]
    return next((name for name in (".".join(parts[:2]), ".".join(parts[:1])) if name in ORDER), None)


@cache
def sources_of(place):
    return [path for path in sources() if (room(f"zoolens.{module_name(path)}") or module_name(path)) == place]


def test_every_file_is_in_a_room():
    loose = {module_name(path) for path in sources() if room(f"zoolens.{module_name(path)}") is None}
    assert loose == {"", "__main__", *WINGS, "crosstrain", "port", "tracing"}  # the last three: rooms with public names
    for wing in WINGS:
        code = ast.parse((PACKAGE / wing / "__init__.py").read_text()).body
        assert all(isinstance(node, ast.Expr) for node in code), f"{wing}/__init__.py holds more than its docstring"


def test_every_room_is_described():
    """Each wing's README has one row for each of its rooms, in their order."""
    for wing, rooms in WINGS.items():
        page = (PACKAGE / wing / "README.md").read_text(encoding="utf-8")
        assert re.findall(r"^\| `(\w+)", page, re.M)[: len(rooms)] == rooms, wing


# A place as the READMEs and docs/design.md write it, below src/zoolens: `base/store/store.py: Store.add_part`.
PLACE = re.compile(r"`([a-z_]+/[a-z_/]*(?:\.py)?)(?:: ([A-Za-z_.]+))?`")


@pytest.mark.parametrize("wing", WINGS)
def test_what_the_readme_of_a_wing_names_is_there(wing):
    page = (PACKAGE / wing / "README.md").read_text(encoding="utf-8")
    named = PLACE.findall(page)
    assert len(named) > 20
    for file, names in named:
        path = PACKAGE / file
        assert path.exists(), f"{wing}/README.md names {file}"
        for name in filter(None, names.split(".")):
            assert re.search(rf"(?:def|class) {name}\b", path.read_text(encoding="utf-8")), f"{file}: {name}"


def test_the_readme_of_a_wing_answers_what_newcomers_ask():
    for wing in WINGS:
        page = (PACKAGE / wing / "README.md").read_text(encoding="utf-8")
        questions = page[page.index("## Where is …?") :]
        answers = re.findall(r"^\| [^|]+\? \| (.+) \|$", questions, re.M)
        assert len(answers) >= 6, wing
        assert len(page.splitlines()) <= 100, f"{wing}/README.md is longer than a page"


@pytest.mark.parametrize("place", ORDER)
def test_imports_point_one_way(place):
    """Tests of all files of a room are one test: for two thousand of them pytest itself would take ten seconds."""
    assert sources_of(place)
    upwards = [
        f"{path.relative_to(PACKAGE)} imports {module}, which lies above it"
        for path in sources_of(place)
        for module, _ in imports(path)
        if module.startswith("zoolens") and room(module) and ORDER.index(room(module)) > ORDER.index(place)
    ]
    assert upwards == []


# Inside a room that is itself split: each package may import only from those before it.
INNER_ORDER = {"training.crosstrain": ["training", "study", "exchange", "crosstrain_api"]}


@pytest.mark.parametrize("place", INNER_ORDER)
def test_packages_of_a_split_room_import_one_way(place):
    order = INNER_ORDER[place]
    for path in sources():
        parts = module_name(path).removeprefix(f"{place}.").split(".")
        if module_name(path) == place or not module_name(path).startswith(f"{place}."):
            continue
        for module, _ in imports(path):
            target = module.removeprefix(f"zoolens.{place}.").split(".")[0] if f"zoolens.{place}." in module else None
            if target is not None:
                assert order.index(target) <= order.index(parts[0]), f"{path} imports {module}, which lies above it"


def test_packages_of_no_room_import_each_other():
    """Modules that lie beside the packages of a room may be below some and above others: they are not looked at."""
    inner = [path.relative_to(PACKAGE).parts for path in sources()]
    names = {".".join(parts[:3]) for parts in inner if parts[0] in WINGS and len(parts) > 3}
    graph = {name: set() for name in names}
    for path in sources():
        own = ".".join(module_name(path).split(".")[:3])
        reached = {".".join(module.split(".")[1:4]) for module, _ in imports(path) if module.startswith("zoolens.")}
        if own in graph:
            graph[own] |= {name for name in reached & names if name != own}
    assert cycles(graph) == set()


def test_contrib_is_entered_only_through_entry_points():
    for path in sources():
        if path.relative_to(PACKAGE).parts[0] != "contrib":
            entered = [module for module, _ in imports(path) if module.startswith("zoolens.contrib")]
            assert not entered, f"{path} imports {entered[0]}: load it as a plug-in"


# Caches that may be deleted at any time: files of their own, in which nobody looks for facts.
CACHES = ("findings/audit/memo.py", "inventory/manifests/digests.py")


def test_only_the_store_speaks_sql():
    """Everybody else asks the Store, so that its tables can change."""
    inside = ("sqlalchemy", "alembic", "sqlite3", "psycopg", "zoolens.base.store.schema", "zoolens.base.store.queries")
    for path in sources():
        name = path.relative_to(PACKAGE)
        if not str(name).startswith(("base/store/", "testing/")) and str(name) not in CACHES:
            reached = [module for module, _ in imports(path) if module.startswith(inside)]
            assert not reached, f"{path} imports {reached[0]}: add a method to Store"


# How core dependencies are imported, where that is not their name, and what they bring along.
IMPORTED_AS = {
    "PyYAML": {"yaml"},
    "Pillow": {"PIL"},
    "Jinja2": {"jinja2", "markupsafe"},
    "pydantic": {"pydantic", "pydantic_core", "annotated_types", "typing_extensions"},
}
# Modules of classes that derive from those of an optional package; each is imported late, and so the package is.
DERIVED = [
    "faces/serving/transports/grpc.py",
    "faces/serving/transports/http.py",
    "faces/serving/transports/http_limits.py",
    "faces/serving/transports/http_protocol.py",
    "faces/ui/app.py",
]


def test_what_a_bare_installation_lacks_is_imported_late():
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())["project"]
    names = [re.match(r"[\w-]+", text)[0] for text in project["dependencies"]]
    there = {imported for name in names for imported in IMPORTED_AS.get(name, {name.lower()})}
    there |= {"zoolens", *sys.stdlib_module_names}
    derived = {f"zoolens.{name.removesuffix('.py').replace('/', '.')}" for name in DERIVED}
    for path in sources():
        name = str(path.relative_to(PACKAGE))
        if name in DERIVED or name.startswith("testing/"):
            continue
        for found in statements(path):
            if found.at_top:
                assert found.module.split(".")[0] in there, f"{name} imports {found.module} at module level"
                assert found.module not in derived, f"{name} imports {found.module} at module level"


# The contract that the plug-ins of each group have to pass, which is shipped for those of others.
CONTRACTS = {
    plugins.ZOOS: "zoo_contract",
    plugins.RUNTIMES: "runtime_contract",
    plugins.DATASETS: "dataset_contract",
    plugins.METRICS: "metric_contract",
    plugins.GRAPH_LIBRARIES: "importer_contract",
    plugins.GRAPH_FILES: "importer_contract",
    plugins.COUNTERS: "counter_contract",
    plugins.TRAINERS: "trainer_contract",
    plugins.RESOURCES: "resource_contract",
    plugins.TASKS: "task_contract",
    plugins.FUNCTIONS: "function_contract",
    plugins.BOUNDS: "bound_contract",
    plugins.TWIN_BOUNDS: "bound_contract",
    plugins.PUBLISHED_STUDIES: "published_contract",
    plugins.EXECUTORS: "executor_contract",
    plugins.POLICIES: "policy_contract",
    plugins.METERS: "meter_contract",
}


def test_every_group_of_plugins_has_a_contract_that_is_used():
    groups = {value for value in vars(plugins).values() if isinstance(value, str) and value.startswith("zoolens.")}
    assert set(CONTRACTS) == groups - {plugins.__name__, plugins.__package__}
    root = PACKAGE.parents[1]
    tests = "\n".join(path.read_text() for folder in (PACKAGE, root / "tests") for path in folder.rglob("test_*.py"))
    for group, contract in CONTRACTS.items():
        assert (PACKAGE / "testing" / f"{contract}.py").is_file(), f"{group} has no contract"
        assert f"zoolens.testing.{contract} import" in tests, f"no test holds a plug-in of {group} to {contract}"


@pytest.mark.parametrize("place", ["", "__main__", *ORDER])
def test_frameworks_stay_in_their_own_file_and_are_imported_late(place):
    for path in sources_of(place):
        name = str(path.relative_to(PACKAGE))
        for module, at_top in imports(path):
            root = module.split(".")[0]
            if root in FRAMEWORKS:
                allowed = [*FRAMEWORKS[root], "testing/*"]
                assert any(fnmatch(name, pattern) for pattern in allowed), f"{name} imports {module}"
                assert not at_top, f"{name} imports {module} at module level"


def module_name(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def inner_imports(path, names):
    """Modules of ours that a file imports, late and for type checkers included."""
    for found in statements(path):
        if found.module.partition(".")[0] == "zoolens":
            base = found.module.removeprefix("zoolens").removeprefix(".")
            if not found.names:
                yield base
            for name in found.names:
                inner = f"{base}.{name}".removeprefix(".")
                yield inner if inner in names else base


def cycles(graph):
    """Groups of modules of which each reaches every other."""
    reached = {name: set(targets) for name, targets in graph.items()}
    for middle in graph:
        for targets in reached.values():
            if middle in targets:
                targets |= reached[middle]
    mutual = {name: {other for other in targets if name in reached.get(other, ())} for name, targets in reached.items()}
    return {frozenset(group) for group in mutual.values() if len(group) > 1}


def test_no_modules_import_each_other():
    """Layering inside rooms. Imports inside functions and for type checkers count as others do: two modules that need
    each other are one module, or lack a third below them."""
    names = {module_name(path): path for path in sources()}
    graph = {name: set(inner_imports(path, names)) - {name} for name, path in names.items()}
    assert [sorted(group) for group in cycles(graph)] == []


def test_the_goals_of_the_house_are_kept():
    """What was reached once: no long signatures, circles, confusable file names, long files or leaning docstrings."""
    for name, found in measure_house.goals([contents(path).outline for path in sources()]).items():
        assert found == [], name


def test_every_package_is_in_the_order():
    wings = {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert wings == {*WINGS, *BESIDE}


def test_names_that_packages_import_on_first_use_are_there():
    """They stand in strings, which neither a type checker nor another import would find wrong."""
    late = [path for path in sources() if path.name == "__init__.py" and "__getattr__" in path.read_text()]
    assert late
    for path in late:
        module = importlib.import_module(f"zoolens.{module_name(path)}".rstrip("."))
        assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_help_imports_no_command_and_no_heavy_library():
    code = (
        "import sys; sys.argv=['zoolens','--help']\n"
        "from zoolens.faces.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy={'numpy','pydantic','sqlalchemy','pyarrow','rich','alembic','torch','tensorflow','PIL','jinja2'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("LOADED []")


@pytest.mark.parametrize(
    "imported",
    [
        "zoolens.inventory.runtimes.isolation.worker",
        "zoolens.findings.graph.structures.graph_worker, zoolens.findings.graph.passes.canonical",
        "zoolens.contrib.gluon, zoolens.contrib.tensorflow_models",
    ],
)
def test_workers_need_numpy_alone(imported):
    """They are lent to environments that hold numpy and one framework."""
    code = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] in {'pydantic','yaml','sqlalchemy','pyarrow','PIL','click','rich','psutil',"
        "'packaging','platformdirs','filelock','alembic'}:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        f"import {imported}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_files_that_begin_first_are_there():
    tree = ast.parse((PACKAGE.parents[1] / "conftest.py").read_text())
    (chosen,) = (node for node in tree.body if _assigns(node, "SLOWEST"))
    for name in ast.literal_eval(chosen.value):
        assert (PACKAGE.parents[1] / name).exists(), f"{name} is in SLOWEST of conftest.py"


def test_tests_find_the_reference_models_in_one_place():
    """A file that counted its parents itself looked elsewhere once it was moved, and its tests were skipped unseen."""
    tests = [*PACKAGE.rglob("test_*.py"), *PACKAGE.rglob("conftest.py"), *Path(__file__).parent.rglob("*.py")]
    folder = re.compile(r"shared.{1,5}assets")
    assert [file for file in tests if folder.search(file.read_text())] == [PACKAGE / "conftest.py"]


def _assigns(node, name):
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name


@pytest.mark.parametrize("folder", ["benchmarks", "scripts", "examples"])
def test_what_lies_outside_the_package_imports_names_that_are_there(folder):
    """No test runs benchmarks, which a renamed name would break unseen."""
    for file in (PACKAGE.parent.parent / folder).rglob("*.py"):
        for statement in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(statement, ast.ImportFrom) and (statement.module or "").partition(".")[0] == "zoolens":
                module = importlib.import_module(str(statement.module))
                for name in (alias.name for alias in statement.names):
                    is_package = hasattr(module, "__path__")
                    known = hasattr(module, name) or (is_package and find_spec(f"{module.__name__}.{name}"))
                    assert known, f"{file.name} imports {name} from {module.__name__}"
