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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = Path("src/zoolens")
MOST_PARAMETERS = 7
"""A reader keeps about seven things in mind; a function that takes more takes a record instead."""
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

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    def tokens(self) -> Iterator[tokenize.TokenInfo]:
        return tokenize.generate_tokens(io.StringIO(self.text).readline)


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
    print(f"files above 400 lines              {len(house.named['files']):>9,}")
    print(f"docstrings that lean on others     {len(house.named['leaning']):>9,}")
    print(f"docstrings that list fields        {len(house.named['fields']):>9,}")
    print(f"functions above {MOST_NODES} nodes a line      {len(house.named['dense']):>9,}")


def read(folder: Path, *, tests: bool) -> list[Source]:
    """Returns the Python files of a package in the order of their paths."""
    sources = []
    for path in sorted(folder.rglob("*.py")):
        if path.name.startswith(("test_", "conftest")) and not tests:
            continue
        text = path.read_text(encoding="utf-8")
        parts = ("zoolens", *path.relative_to(PACKAGE).with_suffix("").parts)
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        sources.append(Source(path, module, text, ast.parse(text)))
    return sources


def measured(sources: list[Source]) -> House:
    """Returns the figures of a package."""
    house = House(files=len(sources))
    public = public_names()
    for source in sources:
        code, comments = code_and_comments(source)
        house.lines += source.lines
        house.code_lines += len(code)
        house.comment_lines += len(comments - code)
        house.commented_lines += len(comments)
        house.nodes += sum(1 for _ in ast.walk(source.tree))
    house.named = {
        "parameters": [line for source in sources for line in long_signatures(source, public)],
        "stems": shared_stems(sources),
        "circles": [" ↔ ".join(circle) for circle in circles(imports_between(sources))],
        "any": [line for source in sources for line in annotations_with_any(source)],
        "files": [f"{source.path}: {source.lines}" for source in sources if source.lines > 400],
        "leaning": [line for source in sources for line in leaning_docstrings(source)],
        "fields": [line for source in sources for line in field_lists(source)],
        "dense": [line for source in sources for line in dense_functions(source)],
    }
    return house


def code_and_comments(source: Source) -> tuple[set[int], set[int]]:
    """Returns the lines that hold code, docstrings left out, and those that hold a comment for a reader."""
    docstrings = {line for node in ast.walk(source.tree) for line in docstring_lines(node)}
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
    for node in ast.walk(source.tree):
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


def public_names() -> frozenset[str]:
    """Returns the names in `__all__` of `zoolens` and its public rooms, which are promised to users."""
    import zoolens
    from zoolens import crosstrain, port, tracing

    return frozenset((*zoolens.__all__, *crosstrain.__all__, *port.__all__, *tracing.__all__))


def leaning_docstrings(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if LEANING.match(text):
                yield f"{source.path}:{getattr(node, 'lineno', 1)} {text.splitlines()[0]}"


def field_lists(source: Source) -> Iterator[str]:
    """Yields the classes whose docstring describes several fields in a row, instead of a comment at each."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and len(FIELD.findall(ast.get_docstring(node) or "")) > 1:
            yield f"{source.path}:{node.lineno} {node.name}"


def dense_functions(source: Source) -> Iterator[str]:
    for function in functions(source):
        lines = {node.lineno for node in ast.walk(function) if hasattr(node, "lineno")}
        docstring = {line for node in function.body[:1] for line in docstring_lines(node)}
        nodes = sum(1 for _ in ast.walk(function))
        if nodes > MOST_NODES * max(len(lines - docstring), 3):
            yield f"{source.path}:{function.lineno} {function.name}: {nodes / len(lines - docstring):.1f}"


def shared_stems(sources: list[Source]) -> list[str]:
    stems = Counter(source.path.stem for source in sources if source.path.stem not in NAMES_OF_PYTHON)
    return [f"{stem}: {count}" for stem, count in stems.most_common() if count > MOST_FILES_OF_A_STEM]


def annotations_with_any(source: Source) -> Iterator[str]:
    for function in functions(source):
        for annotation in (*(one.annotation for one in parameters(function)), function.returns):
            if annotation and any(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(annotation)):
                yield f"{source.path}:{annotation.lineno} {function.name}"


def imports_between(sources: list[Source]) -> dict[str, set[str]]:
    """Returns which modules each module imports at its top level, imports for type checkers included.

    Imports inside functions are left out: they are how a heavy framework is loaded late.
    """
    modules = {source.module for source in sources}
    graph: dict[str, set[str]] = {}
    for source in sources:
        found = {name for node in top_level(source.tree) for name in imported(node)}
        graph[source.module] = {known for name in found if (known := nearest(name, modules)) and known != source.module}
    return graph


def top_level(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from top_level(child)


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
