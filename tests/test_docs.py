"""The documentation is true: generated parts are current; every command, plug-in, public name and rule of the audit is
described; links resolve; and every `zoolens` command shown can be called as shown."""

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

import zoolens
from zoolens.base import plugins
from zoolens.faces.cli.main import COMMANDS

REPO = Path(__file__).parent.parent
PAGES = [REPO / "README.md", REPO / "CONTRIBUTING.md", *sorted((REPO / "docs").glob("*.md"))]
# What was written once and is not kept true: only its links have to lead somewhere.
RECORDS = [REPO / "CHANGELOG.md", *sorted((REPO / "docs" / "history").glob("*.md"))]
RULES = sorted((REPO / "src" / "zoolens" / "findings" / "audit" / "rules").glob("*.py"))
GROUPS = [
    plugins.ZOOS,
    plugins.RUNTIMES,
    plugins.DATASETS,
    plugins.METRICS,
    plugins.GRAPH_LIBRARIES,
    plugins.GRAPH_FILES,
    plugins.COUNTERS,
    plugins.TRAINERS,
    plugins.RESOURCES,
    plugins.FUNCTIONS,
    plugins.BOUNDS,
    plugins.TWIN_BOUNDS,
    plugins.EXECUTORS,
    plugins.POLICIES,
    plugins.METERS,
    plugins.TASKS,
]
HAND_WRITTEN = [page for page in PAGES if page.name != "cli.md"]


def test_generated_parts_are_current():
    done = subprocess.run(
        [sys.executable, REPO / "scripts" / "make_docs.py", "--check"],
        capture_output=True,
        text=True,
        cwd=REPO,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_described_and_its_one_line_help_is_there(name):
    command = importlib.import_module(f"zoolens.faces.cli.{name.replace('-', '_')}").command
    assert command.help
    assert any(f"zoolens {name}" in page.read_text() for page in HAND_WRITTEN), f"no page explains zoolens {name}"


@pytest.mark.parametrize("group", GROUPS)
def test_every_plugin_is_described(group):
    text = "\n".join(page.read_text() for page in PAGES)
    assert group in text
    for name in plugins.names(group):
        assert re.search(rf"`{name}`", text), f"{name} of {group} is nowhere described"


def test_contributing_has_every_group_of_plugins_with_its_contract():
    text = (REPO / "CONTRIBUTING.md").read_text(encoding="utf-8")
    groups = {value for value in vars(plugins).values() if isinstance(value, str) and value.startswith("zoolens.")}
    groups -= {plugins.__name__, plugins.__package__}
    rows = [line for line in text.splitlines() if line.startswith("| ") and "_contract.py`" in line]
    assert {name for row in rows for name in re.findall(r"`(zoolens\.[\w.]+)`", row)} == groups
    for contract in re.findall(r"`(zoolens/testing/\w+\.py)`", "\n".join(rows)):
        assert (REPO / "src" / contract).is_file(), contract


def test_every_public_name_is_described():
    text = (REPO / "docs" / "python-api.md").read_text()
    assert [name for name in zoolens.__all__ if f"zoolens.{name}" not in text] == []
    rooms = {"crosstrain": zoolens.crosstrain, "port": zoolens.port, "tracing": zoolens.tracing}
    names = [f"{room}.{name}" for room, package in rooms.items() for name in package.__all__]
    assert [name for name in names if f"`{name}" not in text] == []


def rules():
    """What findings are called in the code, up to where the name is made up at run time."""
    found = {name.partition("{")[0] for path in RULES for name in re.findall(r'f?"([a-z]+/[^"]+)"', path.read_text())}
    return sorted(found)


def test_every_rule_of_the_audit_is_described():
    text = (REPO / "docs" / "audit.md").read_text()
    assert len(rules()) > 10
    assert [rule for rule in rules() if f"`{rule}" not in text] == []


def shown_commands():
    for page in HAND_WRITTEN:
        for block in re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", page.read_text(), re.M | re.S):
            for line in block.replace("\\\n", " ").splitlines():
                line = line.removeprefix("$ ").partition("  #")[0].strip()
                if line.startswith("zoolens "):
                    yield pytest.param(line, id=f"{page.name}: {line[:60]}")


@pytest.mark.parametrize("line", shown_commands())
def test_shown_commands_parse(line, tmp_path):
    words = shlex.split(line)[1:]
    words = words[: next((i for i, word in enumerate(words) if word in ("|", ">", "&&")), len(words))]
    if words[0].startswith("--"):
        return
    command = importlib.import_module(f"zoolens.faces.cli.{words[0].replace('-', '_')}").command
    rest = words[1:]
    while isinstance(command, click.Group) and rest and rest[0] in command.commands:
        command, rest = command.commands[rest[0]], rest[1:]
    if isinstance(command, click.Group) and command.invoke_without_command:
        return
    if "--store" in rest:  # who only reads refuses one that is not there
        store = tmp_path / "store.sqlite"
        store.touch()
        rest[rest.index("--store") + 1] = str(store)
    command.make_context(command.name, rest, resilient_parsing="--help" in rest)


def named_commands(page):
    """The commands within the sentences of a page, but for those that stand for any command."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    spans = (" ".join(span.split()) for span in re.findall(r"`zoolens ([^`]+)`", prose))
    return [span for span in spans if not span.startswith(("-", "COMMAND"))]


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=lambda page: page.name)
def test_named_commands_and_their_options_are_there(page):
    """Their arguments may be placeholders, so that they need not parse."""
    for line in named_commands(page):
        name, *rest = shlex.split(line)
        command = importlib.import_module(f"zoolens.faces.cli.{name.replace('-', '_')}").command
        while isinstance(command, click.Group) and rest and rest[0] in command.commands:
            command, rest = command.commands[rest[0]], rest[1:]
        assert not isinstance(command, click.Group) or command.invoke_without_command or not rest, line
        options = {"--help", *(name for parameter in command.params for name in parameter.opts)}
        options |= {name for parameter in command.params for name in parameter.secondary_opts}
        assert {word.partition("=")[0] for word in rest if word.startswith("--")} <= options, line


@pytest.mark.parametrize("page", [*PAGES, *RECORDS], ids=lambda page: page.name)
def test_relative_links_resolve(page):
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


# CONTRIBUTING names a file that its reader writes.
@pytest.mark.parametrize("page", sorted((REPO / "docs").glob("*.md")), ids=lambda page: page.name)
def test_commands_name_tests_and_scripts_that_are_there(page):
    commands = re.findall(r"(?:pytest|python)(?: [^`\n]*)?", page.read_text(encoding="utf-8"))
    for command in commands:
        for path in re.findall(r"\b(?:src|tests|benchmarks|scripts)/[\w/]+\.py\b", command):
            assert (REPO / path).exists(), f"{page.name} names {path}"


def test_every_page_is_in_the_navigation():
    navigation = yaml.safe_load((REPO / "mkdocs.yml").read_text())["nav"]
    listed = {path for entry in navigation for path in entry.values()}
    docs = REPO / "docs"
    assert listed == {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}


def test_the_changelog_has_an_entry_of_this_version_that_fits_a_page():
    text = (REPO / "CHANGELOG.md").read_text(encoding="utf-8")
    entries = re.split(r"^## ", text, flags=re.MULTILINE)
    (own,) = (entry for entry in entries if entry.startswith(f"[{zoolens.__version__}] - "))
    assert re.match(r"\[[\d.]+\] - \d{4}-\d\d-\d\d\n", own)
    assert len(own.splitlines()) <= 70


@pytest.mark.parametrize("page", [REPO / "README.md", REPO / "docs" / "index.md"], ids=lambda page: page.name)
def test_every_command_is_in_the_overviews(page):
    text = page.read_text(encoding="utf-8")
    table = text[text.index("## Commands") :].partition("\n## ")[0]
    named = set(re.findall(r"`(?:zoolens )?([\w-]+)", table))
    assert set(COMMANDS) <= named


def test_readme_names_the_two_sacred_commands():
    text = (REPO / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
    assert "make test" in (REPO / ".ci" / "run").read_text()


def test_the_walks_of_the_design_name_what_is_there():
    text = (REPO / "docs" / "design.md").read_text(encoding="utf-8")
    walks = text[text.index("## Walks") : text.index("## Decisions")]
    named = re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)(?:: ([A-Za-z_.]+))?`", walks)
    assert len(named) > 30
    for file, names in named:
        path = Path(zoolens.__file__).parent / file
        assert path.exists(), file
        for name in filter(None, names.split(".")):
            assert re.search(rf"(?:def|class) {name}\b", path.read_text(encoding="utf-8")), f"{file}: {name}"
