"""Python blocks of the documentation are executed: those of a page one after the other, as a reader would paste them.

Blocks use what `zoolens demo` leaves in the store, and a few files that pages mention. A block that needs a framework
for minutes runs in the slow tests only; one that cannot run here says why below. Models are trusted in the quick tests,
which spares a sandboxed process for each of them; tests/test_evaluate.py and the tests of commands use the sandbox.
"""

import ast
import importlib
import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

REPO = Path(__file__).parent.parent
MODELS = REPO / "src" / "zoolens" / "inventory" / "zoos" / "demo_data" / "models"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [REPO / "CONTRIBUTING.md", *sorted((REPO / "docs").glob("*.md"))]

# page -> numbers of blocks, and why they are not executed
LEFT_OUT = {
    "crosstrain.md": (
        {0, 1},
        "they need studies that take hours; tests/test_crosstrain.py has them",
    ),
    "endpoints.md": ({0}, "it asks a server; src/zoolens/findings/endpoints has tests with servers of their own"),
    "language-models.md": ({0, 1}, "one needs a language model, the other ends with the error that it shows"),
    "identify.md": ({0}, "it needs a reference model; tests/test_reference.py has it"),
    "python-api.md": ({10}, "it needs a reference model; tests/test_reference.py has it"),
    "serve.md": ({2}, "it needs detectors; src/zoolens/faces/serving/services/test_task_services.py serves some"),
    "CONTRIBUTING.md": ({1}, "it imports the runtime that the block before it would have become"),
    "pytest.md": ({0}, "two of its tests fail on purpose; src/zoolens/testing/test_pytest_plugin.py runs such a file"),
}
SLOW = {  # several networks of several libraries are built
    "audit.md": {0},
    "diff.md": {0},
    "graph.md": {0, 1},
    "papers.md": {0},
    "port.md": {0},
    "cost.md": {0},
    "python-api.md": {9, 11},
}
OTHER_WORDS = {
    '"my-own-model.yaml", "photos"': '"my-own-model.yaml", "demo", limit=200',
    "batches=(1, 8),\n": "batches=(1,),\n",  # which the demo has measured: a batch of 8 takes seconds
}
DRIVER = """
import sys
from pathlib import Path

from zoolens import trusting

names = {"__name__": "page"}
with trusting(sys.argv[1] == "trust"):
    for path in sys.argv[2:]:
        exec(compile(Path(path).read_text(), path, "exec"), names)
"""


def blocks(page):
    return dict(enumerate(BLOCK.findall(page.read_text())))


def executed(page, *, slow):
    """The blocks of a page that run, in order; the quick ones only unless asked."""
    out = LEFT_OUT.get(page.name, (set(), ""))[0] | (set() if slow else SLOW.get(page.name, set()))
    return {number: text for number, text in blocks(page).items() if number not in out}


ALL_SLOW = {"port.md", "python-api.md"}  # together a fifth of a minute; the slow suite executes every block of them
QUICK = [page for page in PAGES if page.name not in {"plugins.md", *ALL_SLOW} and executed(page, slow=False)]
OTHERS = [page for page in PAGES if page.name in SLOW]


@pytest.fixture
def place(demo_home, tmp_path, command_server):
    """Runs blocks in a folder that has the files which pages mention; each page has its own copy of the home, and its
    own process."""
    shutil.copytree(demo_home, tmp_path / "home")
    for name in ("lenet-wide.onnx", "lenet-wide.tflite", "lenet-wide.yaml"):
        shutil.copy(MODELS / name, tmp_path / name)
    shutil.copy(MODELS / "lenet-wide.tflite", tmp_path / "model.tflite")
    shutil.copy(MODELS / "lenet-wide.yaml", tmp_path / "my-own-model.yaml")
    environment = {**os.environ, "ZOOLENS_HOME": str(tmp_path / "home")}

    def run(texts, trust):
        files = []
        for number, text in texts.items():
            files.append(tmp_path / f"block{number}.py")
            for written, executed_instead in OTHER_WORDS.items():
                text = text.replace(written, executed_instead)
            files[-1].write_text(text)
        words = ["trust" if trust else "confine", *files]
        return command_server.run(*words, code=DRIVER, environment=environment, folder=tmp_path, timeout=1200)

    return run


@pytest.mark.parametrize("page", QUICK, ids=lambda page: page.name)
def test_blocks_run(page, place):
    done = place(executed(page, slow=False), trust=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.name)
def test_slow_blocks_run(page, place):
    absent = [name for name in ("torchvision", "keras", "tensorflow", "onnx") if find_spec(name) is None]
    if absent:
        pytest.skip(f"NOT INSTALLED: {', '.join(absent)}")
    done = place(executed(page, slow=True), trust=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", sorted({*QUICK, *OTHERS}), ids=lambda page: page.name)
def test_blocks_import_the_modules_that_they_use(page):
    """The process of the tests above has imported most modules already, which would hide what a block forgets."""
    imported, used = set(), set()
    for text in blocks(page).values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.Attribute):
                used.add(ast.unparse(node))
    packages = {name.partition(".")[0] for name in imported}
    for name in used:
        package, _, attribute = name.partition(".")
        if package in packages and attribute.isidentifier() and name not in imported:
            exported = attribute in getattr(importlib.import_module(package), "__all__", ())
            assert exported or find_spec(package).submodule_search_locations is None or find_spec(name) is None, name


def test_what_is_left_out_or_slow_is_there():
    for name, numbers in [*((name, numbers) for name, (numbers, _) in LEFT_OUT.items()), *SLOW.items()]:
        (page,) = (page for page in PAGES if page.name == name)
        assert numbers <= blocks(page).keys()


@pytest.mark.parametrize("number", blocks(REPO / "docs" / "plugins.md"))
def test_plugin_examples_are_modules_that_import(number, tmp_path):
    """The packages of the examples do not exist, so that a block that imports one of them is only compiled."""
    text = blocks(REPO / "docs" / "plugins.md")[number]
    code = compile(text, f"plugins.md block {number}", "exec")
    if not re.search(r"^from zoolens_\w+", text, re.MULTILINE):
        exec(code, {"__name__": f"example{number}", "__file__": str(tmp_path / "example.py")})
