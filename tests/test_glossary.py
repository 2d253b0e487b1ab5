"""One word for one thing: what the glossary says is never called so is called so in no page and in no help text."""

import re
from pathlib import Path

import pytest

REPO = Path(__file__).parent.parent
GLOSSARY = REPO / "docs" / "glossary.md"
PAGES = [
    REPO / "README.md",
    REPO / "CONTRIBUTING.md",
    *(page for page in sorted((REPO / "docs").glob("*.md")) if page != GLOSSARY),
]
HELP = REPO / "docs" / "cli.md"  # every command's help, held to be current by tests/test_docs.py
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
ADDRESS = re.compile(r"\]\([^)]*\)|https?://\S+")
OPTION = re.compile(r"--[\w-]+")

# Where such a word means something else, or is the name that others gave to a thing of theirs.
OTHER_MEANINGS = {
    "backend": [
        r"Keras.{0,40}backend", r"ptflops has two backend", r"its backend (when|is)", r"JAX is used as the backend",
        r"platform or backend",
    ],
    "checkpoint": [r"reads and writes checkpoint"],
    "config": [r"config\.pbtxt"],
    "engine": [r"SQLAlchemy engine"],
    "experiment": [r"published (query-quality )?experiment"],
    "hash": [r"locality-sensitive hash", r"scripts whose hash"],
    "hub": [r"Hugging Face hub", r"ONNX hub", r"ONNX Model Zoo's hub", r"the hub's (list|files)", r"hub manifest"],
    "instance": [r"instance norm"],
    "overlap": [r"overlap of (the subspaces|layers)", r"the overlap that the paper names", r"intervals overlap"],
    "parser": [r"parsed by a parser"],
    "platform": [r"platform or backend", r"of a platform that zoolens does not run"],
}  # fmt: skip


def columns():
    """(word, words that are never used for it) of every line of the table."""
    for line in GLOSSARY.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] not in ("word", "---"):
            yield cells[0], [word.strip() for word in cells[2].split(",") if word.strip()]


NEVER = [(never, word) for word, ruled_out in columns() for never in ruled_out]


def prose(page):
    """What a page says in its own words: no code and no addresses; of the command line's page the help texts too."""
    text = page.read_text()
    text = OPTION.sub(" ", text) if page == HELP else FENCED.sub(" ", text)
    return " ".join(ADDRESS.sub(" ", INLINE_CODE.sub(" ", text)).split())


def spelled(word):
    return rf"\b{re.escape(word)}(s|es)?\b"


def test_the_glossary_is_in_order_and_contradicts_itself_nowhere():
    words = [word for word, _ in columns()]
    assert words == sorted(words)
    assert len(NEVER) > 20
    assert set(OTHER_MEANINGS) <= {never for never, _ in NEVER}
    assert not {part for word in words for part in word.split(", ")} & {never for never, _ in NEVER}


@pytest.mark.parametrize(("never", "word"), NEVER, ids=lambda value: value)
def test_words_that_are_ruled_out_are_not_used(never, word):
    used = []
    for page in PAGES:
        text = prose(page)
        for pattern in OTHER_MEANINGS.get(never, ()):
            text = re.sub(pattern, " ", text)
        used += [
            f"{page.name}: …{text[max(0, match.start() - 60) : match.end() + 60]}…"
            for match in re.finditer(spelled(never), text, re.IGNORECASE)
        ]
    assert used == [], f"say {word}, not {never}, or name the other meaning in OTHER_MEANINGS"


@pytest.mark.parametrize("never", OTHER_MEANINGS)
def test_other_meanings_are_still_there(never):
    text = " ".join(prose(page) for page in PAGES)
    assert [pattern for pattern in OTHER_MEANINGS[never] if not re.search(pattern, text)] == []
