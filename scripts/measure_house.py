"""Measures how large, dense and entangled the source is: `python -m scripts.measure_house [FOLDER] [--list NAME]`.

Prints one line for each figure, so that two commits are compared with `diff`. `--list` names what a figure counts:
parameters, stems, circles, any, files, leaning, fields or dense.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PACKAGE = Path("src/zoolens")
MOST_PARAMETERS = 7
"""A reader keeps about seven things in mind; a function that takes more takes a record instead."""
MOST_LINES = 400
MOST_FILES_OF_A_STEM = 3
"""A search for a file name should show few hits. `__init__` and the like are names that Python gives."""
LISTS = ("parameters", "stems", "circles", "any", "files", "leaning", "fields", "dense")
LEANING = re.compile(r"(The same|Of|And|Or|Nor|As|Also|Likewise|Ditto)\b")
"""A docstring that begins so can only be read after its neighbour."""
DIRECTIVE = re.compile(r"#\s*(noqa|type:|pragma|fmt:|ruff:)")
"""Comments that tools read. They tell a reader nothing."""
FIELD = re.compile(r"`\w+`:")
MOST_NODES = 12
"""AST nodes a code line of one function. The peers that were measured have 5.4 to 7.0 on average."""
NAMES_OF_PYTHON = ("__init__", "__main__", "conftest")


@dataclass(frozen=True)
class Source:
    """One Python file with what is counted in it."""

    path: Path
    module: str
    text: str
    tree: ast.Module
    statements: list[ast.AST]

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    def tokens(self) -> Iterator[tokenize.TokenInfo]:
        return tokenize.generate_tokens(io.StringIO(self.text).readline)


@dataclass(frozen=True)
class Outline:
    """What the goals look at in one file. The trees of all files would be 1.4 million objects: none is kept."""

    path: Path
    module: str
    lines: int
    imports: frozenset[str]  # at the top level, imports for type checkers included
    signatures: list[str]  # those that are too long
    leaning: list[str]


@dataclass
class House:
    """The figures of all files, and the names behind those that are counted."""

    files: int = 0
    lines: int = 0
    code_lines: int = 0
    comment_lines: int = 0
    commented_lines: int = 0  # comment lines, and lines of code with a comment behind it
    nodes: int = 0
    named: dict[str, list[str]] = field(default_factory=dict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=PACKAGE)
    parser.add_argument("--tests", action="store_true", help="count test files as well")
    parser.add_argument("--list", choices=LISTS, help="name what is counted")
    chosen = parser.parse_args()
    house = measured(read(chosen.folder, tests=chosen.tests))
    if chosen.list:
        print("\n".join(house.named[chosen.list]))
        return
    print(f"files                              {house.files:>9,}")
    print(f"lines                              {house.lines:>9,}")
    print(f"code lines                         {house.code_lines:>9,}")
    print(f"AST nodes a code line              {house.nodes / house.code_lines:>9.1f}")
    print(f"comment lines                      {house.comment_lines / house.lines:>9.1%}")
    print(f"lines with a comment               {house.commented_lines / house.lines:>9.1%}")
    print(f"functions above {MOST_PARAMETERS} parameters        {len(house.named['parameters']):>9,}")
    print(f"stems of more than {MOST_FILES_OF_A_STEM} files         {len(house.named['stems']):>9,}")
    print(f"circles, with imports for types    {len(house.named['circles']):>9,}")
    print(f"annotations with Any               {len(house.named['any']):>9,}")
    print(f"files above {MOST_LINES} lines              {len(house.named['files']):>9,}")
    print(f"docstrings that lean on others     {len(house.named['leaning']):>9,}")
    print(f"docstrings that list fields        {len(house.named['fields']):>9,}")
    print(f"functions above {MOST_NODES} nodes a line      {len(house.named['dense']):>9,}")


def read(folder: Path, *, tests: bool) -> Iterator[Source]:
    """Yields the Python files of a package in the order of their paths."""
    for path in sorted(folder.rglob("*.py")):
        if tests or not path.name.startswith(("test_", "conftest")):
            yield parsed(path)


def parsed(path: Path, package: Path = PACKAGE) -> Source:
    """Returns a file of the package."""
    text = path.read_text(encoding="utf-8")
    parts = ("zoolens", *path.relative_to(package).with_suffix("").parts)
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    tree = ast.parse(text)
    return Source(path, module, text, tree, statements(tree))


def statements(tree: ast.AST) -> list[ast.AST]:
    """Returns a tree's root and statements. `ast.walk` takes ten times as long: nine of ten nodes are expressions."""
    found = [tree]
    for node in found:  # which grows meanwhile
        found += inner_statements(node)
    return found


def inner_statements(node: ast.AST) -> Iterator[ast.AST]:
    for part in ("body", "handlers", "cases", "orelse", "finalbody"):
        inner = getattr(node, part, None)
        if isinstance(inner, list):
            yield from inner


def measured(sources: Iterable[Source]) -> House:
    """Returns the figures of a package."""
    house = House()
    outlines = []
    unlimited: dict[str, list[str]] = {"any": [], "fields": [], "dense": []}
    for source in sources:
        outlines.append(outline(source))
        code, comments = code_and_comments(source)
        house.files += 1
        house.lines += source.lines
        house.code_lines += len(code)
        house.comment_lines += len(comments - code)
        house.commented_lines += len(comments)
        house.nodes += sum(1 for _ in ast.walk(source.tree))
        unlimited["any"] += annotations_with_any(source)
        unlimited["fields"] += field_lists(source)
        unlimited["dense"] += dense_functions(source)
    house.named = goals(outlines) | unlimited
    return house


def outline(source: Source) -> Outline:
    imports = frozenset(name for node in top_level(source.tree) for name in imported(node))
    signatures = list(long_signatures(source, public_names()))
    return Outline(source.path, source.module, source.lines, imports, signatures, list(leaning_docstrings(source)))


def goals(outlines: list[Outline]) -> dict[str, list[str]]:
    """Returns what is in the way of each goal; a test holds that nothing is."""
    return {
        "parameters": [line for one in outlines for line in one.signatures],
        "stems": shared_stems(outlines),
        "circles": [" ↔ ".join(circle) for circle in circles(imports_between(outlines))],
        "files": [f"{one.path}: {one.lines}" for one in outlines if one.lines > MOST_LINES],
        "leaning": [line for one in outlines for line in one.leaning],
    }


def code_and_comments(source: Source) -> tuple[set[int], set[int]]:
    """Returns the lines that hold code, docstrings left out, and those that hold a comment for a reader."""
    docstrings = {line for node in source.statements for line in docstring_lines(node)}
    code: set[int] = set()
    comments: set[int] = set()
    passed_over = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in source.tokens():
        if token.type == tokenize.COMMENT:
            if not DIRECTIVE.search(token.string):
                comments.add(token.start[0])
        elif token.type not in passed_over:
            code.update(range(token.start[0], token.end[0] + 1))
    code -= docstrings
    return code, comments


def docstring_lines(node: ast.AST) -> Iterator[int]:
    """Yields the lines of texts that stand alone as a statement: docstrings, and what is said below a constant."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in source.statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """Returns what a caller may give; `self` and `cls` are no burden."""
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return [one for one in given if one.arg not in ("self", "cls")]


def is_entry_point(function: ast.FunctionDef | ast.AsyncFunctionDef, public: frozenset[str]) -> bool:
    """Tells whether people call it by keywords: a public function of `zoolens`, or a command, which click calls."""
    commands = (ast.unparse(one) for one in function.decorator_list)
    return function.name in public or any(".command(" in text or "click." in text for text in commands)


def long_signatures(source: Source, public: frozenset[str]) -> Iterator[str]:
    for function in functions(source):
        count = len(parameters(function))
        if count > MOST_PARAMETERS and not is_entry_point(function, public):
            yield f"{source.path}:{function.lineno} {function.name}: {count}"


@cache
def public_names() -> frozenset[str]:
    """Returns the names in `__all__` of `zoolens` and its public rooms, which are promised to users."""
    import zoolens
    from zoolens import crosstrain, port, tracing

    return frozenset((*zoolens.__all__, *crosstrain.__all__, *port.__all__, *tracing.__all__))


def leaning_docstrings(source: Source) -> Iterator[str]:
    for node in source.statements:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if LEANING.match(text):
                yield f"{source.path}:{getattr(node, 'lineno', 1)} {text.splitlines()[0]}"


def field_lists(source: Source) -> Iterator[str]:
    """Yields the classes whose docstring describes several fields in a row, instead of a comment at each."""
    for node in source.statements:
        if isinstance(node, ast.ClassDef) and len(FIELD.findall(ast.get_docstring(node) or "")) > 1:
            yield f"{source.path}:{node.lineno} {node.name}"


def dense_functions(source: Source) -> Iterator[str]:
    for function in functions(source):
        lines = {node.lineno for node in ast.walk(function) if hasattr(node, "lineno")}
        docstring = {line for node in function.body[:1] for line in docstring_lines(node)}
        nodes = sum(1 for _ in ast.walk(function))
        if nodes > MOST_NODES * max(len(lines - docstring), 3):
            yield f"{source.path}:{function.lineno} {function.name}: {nodes / len(lines - docstring):.1f}"


def shared_stems(outlines: list[Outline]) -> list[str]:
    stems = Counter(one.path.stem for one in outlines if one.path.stem not in NAMES_OF_PYTHON)
    return [f"{stem}: {count}" for stem, count in stems.most_common() if count > MOST_FILES_OF_A_STEM]


def annotations_with_any(source: Source) -> Iterator[str]:
    for function in functions(source):
        for annotation in (*(one.annotation for one in parameters(function)), function.returns):
            if annotation and any(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(annotation)):
                yield f"{source.path}:{annotation.lineno} {function.name}"


def imports_between(outlines: list[Outline]) -> dict[str, set[str]]:
    """Returns which modules each module imports at its top level, imports for type checkers included.

    Imports inside functions are left out: they are how a heavy framework is loaded late.
    """
    modules = {one.module for one in outlines}
    return {
        one.module: {known for name in one.imports if (known := nearest(name, modules)) and known != one.module}
        for one in outlines
    }


def top_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Yields the statements that an import of the module executes."""
    rest: list[ast.AST] = [tree]
    for node in rest:  # which grows meanwhile
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            rest += inner_statements(node)


def imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from (f"{node.module}.{one.name}" for one in node.names)


def nearest(name: str, modules: set[str]) -> str | None:
    """Returns the module that a dotted name is, or is in."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Returns the groups of modules that reach each other, by Tarjan's algorithm without recursion."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []
    for root in sorted(graph):
        if root in number:
            continue
        number[root] = lowest[root] = len(number)
        stack.append(root)
        work = [(root, iter(sorted(graph[root])))]
        while work:
            module, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[module])
                if lowest[module] == number[module]:
                    group = stack[stack.index(module) :]
                    del stack[stack.index(module) :]
                    if len(group) > 1:
                        found.append(sorted(group))
            elif following not in number:
                number[following] = lowest[following] = len(number)
                stack.append(following)
                work.append((following, iter(sorted(graph[following]))))
            elif following in stack:
                lowest[module] = min(lowest[module], number[following])
    return found


if __name__ == "__main__":
    main()
