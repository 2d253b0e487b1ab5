"""Text to tokens. The cursor stands on a token; the parser asks what it is and moves on.

What a letter means depends on where it stands: `a-b/c` is a model's name behind CORR and arithmetic behind ORDER BY.
Where a name is due, `bare` reads the same place again as a name and moves behind all its tokens.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from zoolens.findings.queries.language.errors import QueryError

LONGEST: Final = 10_000  # characters of a query
DEEPEST: Final = 50  # parentheses, NOTs, signs and calls inside each other
MOST_OPERATIONS: Final = 100  # of all expressions: a chain of sums is a tree as deep as the chain is long

CLAUSES: Final = (
    "CORR", "WITHIN", "TASK", "ON", "WHERE", "SEGMENTS", "ORDER", "LIMIT", "EXEC", "CONFIDENCE", "DATA", "BOUND",
    "SHOW", "ELSE",
)  # fmt: skip
# Words that are no names unless they stand in quotes.
RESERVED: Final = frozenset(
    {*CLAUSES, "SELECT", "EXPLAIN", "BY", "AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "IS", "OF", "ASC", "DESC", "REF",
     "REFERENCE"}
)  # fmt: skip
COMPARISONS: Final = {
    "<": "<", "<=": "<=", ">": ">", ">=": ">=", "=": "=", "==": "=", "!=": "!=", "<>": "!=", "≤": "<=", "≥": ">=",
    "≠": "!=",
}  # fmt: skip

_NUMBER = r"(?:[0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_WORD = r"[^\W\d]\w*(?:[.@]\w+)*"  # latency_p95, memory.gpu, peak_memory@process
_TOKEN = re.compile(
    rf"""\s*(?:(?P<word>{_WORD})|(?P<number>{_NUMBER})
    |(?P<symbol><=|>=|<>|!=|==|=>|=<|&&|\|\||[-+*/(),;<>=%×.≤≥≠])
    |(?P<string>'[^']*(?:''[^']*)*'|"[^"]*(?:""[^"]*)*")
    |(?P<end>\Z)|(?P<odd>.))""",
    re.VERBOSE | re.DOTALL,
)
_CURLY = "‘’“”„«»`"
_BARE = re.compile(rf"[^\s'\"();,<>=!{_CURLY}]+")
_PLAIN_WORD = re.compile(_WORD)
_PLAIN_NUMBER = re.compile(rf"-?{_NUMBER}")


class Token(NamedTuple):
    """`kind`: word, number, symbol, string, bare, end or odd. `text` is as written; of a string, without its quotes.
    `keyword` is a word in capitals, for keywords are written in any case, or a symbol; else nothing."""

    kind: str
    text: str
    start: int
    end: int
    keyword: str = ""

    @property
    def shown(self) -> str:
        """The token as an error message shows it."""
        if self.kind == "end":
            return "the end of the query"
        return repr(self.text) if len(self.text) <= 40 else repr(self.text[:39] + "…")


def tokens_of(text: str) -> list[Token]:
    """All tokens, at least one "end" behind the others."""
    # Half the time of Token(…), which is a third of parsing.
    tokens, new = [], tuple.__new__
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        start, end = match.span(kind)  # type: ignore[arg-type]  # one of the groups has matched
        part = text[start:end]
        if kind == "word":
            tokens.append(new(Token, (kind, part, start, end, part.upper())))
        elif kind == "symbol":
            tokens.append(new(Token, (kind, part, start, end, part)))
        elif kind == "string":
            tokens.append(new(Token, (kind, part[1:-1].replace(part[0] * 2, part[0]), start, end, "")))
        else:
            tokens.append(new(Token, (kind, part, start, end, "")))
    return tokens


class Cursor:
    """The place in a text that was read up to. `places` remembers where each name stood first."""

    __slots__ = ("_rest", "depth", "last_end", "operations", "places", "text", "token")

    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0
        self.operations = 0
        self.last_end = 0  # where the token before this one ended
        self.places: dict[str, tuple[int, int]] = {}
        if len(text) > LONGEST:
            message = f"The query has {len(text):,} characters; at most {LONGEST:,} are read."
            raise QueryError(message, text, LONGEST, LONGEST + 1, hint="Shorten it.")
        self._rest = tokens_of(text)
        self._rest.reverse()
        self.token = self._rest.pop()

    def next(self) -> Token:
        """The token that the cursor stood on; the cursor moves behind it."""
        token = self.token
        self.last_end = token.end
        if self._rest:
            self.token = self._rest.pop()
        return token

    def peek(self) -> Token:
        """The token behind the one that the cursor stands on."""
        return self._rest[-1] if self._rest else self.token

    def since(self, first: Token) -> Token:
        """All from that token to the last one that was read, to point at."""
        return Token("part", self.text[first.start : self.last_end], first.start, self.last_end)

    def accept(self, *words: str) -> bool:
        """Move behind a keyword or a symbol, if one of these is here."""
        if self.token.keyword in words:
            self.next()
            return True
        return False

    def expect(self, word: str, message: str, hint: str) -> None:
        if not self.accept(word):
            raise self.error(message, hint)

    def bare(self, pattern: re.Pattern[str] = _BARE) -> Token | None:
        """What stands here, read as a name of other letters than words are made of: zoo:name@v1, resnet-50, res*."""
        if self.token.kind == "string":
            return self.next()
        match = pattern.match(self.text, self.token.start)
        if match is None:
            return None
        start, end = match.span()
        if end == self.token.end:
            return self.next()
        while self.token.start < end and self.token.kind != "end":
            self.next()
        self.last_end = end
        return Token("bare", match[0], start, end)

    def name(self, what: str, hint: str) -> str:
        """A name, bare or in quotes, that is no keyword of a clause."""
        current = self.token
        if not self.begins_clause():
            token = self.bare()
            if token is not None and token.text:
                self.places.setdefault(token.text, (token.start, token.end))
                return token.text
        raise self.error(f"Expected {what}, found {current.shown}.", hint, current)

    def begins_clause(self) -> bool:
        """Whether a clause's keyword stands here, and not only the beginning of a name as in on/v1 or data-net."""
        if self.token.keyword not in CLAUSES:
            return False
        match = _BARE.match(self.text, self.token.start)
        return match is None or match.end() == self.token.end

    def enter(self) -> None:
        """Enter one level of nesting; the parser leaves it with `leave`."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"The query is nested more than {DEEPEST} levels deep.", "Take some of them apart.")

    def leave(self) -> None:
        self.depth -= 1

    def count_operation(self) -> None:
        self.operations += 1
        if self.operations > MOST_OPERATIONS:
            raise self.error(f"The query computes more than {MOST_OPERATIONS} operations.", "Write a function for it.")

    def error(self, message: str, hint: str | None = None, token: Token | None = None) -> QueryError:
        """About the token here, or another one. A quote that is none is the cause of what it is found for."""
        token = token or self.token
        if token.kind == "odd" and token.text in "'\"":
            message = "This quote is never closed."
            hint = f"Write {token.text} behind the name too; a quote inside a name is doubled."
        elif token.kind == "odd" and token.text in _CURLY:
            message, hint = f"{token.text} does not quote anything.", "Write 'name' with straight quotes."
        return QueryError(message, self.text, token.start, token.end, hint=hint)


def is_word(name: str) -> bool:
    """Whether a name is read back as one word and no keyword when it is written without quotes."""
    capitals = name.upper()
    return _PLAIN_WORD.fullmatch(name) is not None and capitals not in RESERVED and not capitals.startswith("REF.")


def is_bare(name: str) -> bool:
    """Whether a name is read back by `Cursor.name` when it is written without quotes."""
    return _BARE.fullmatch(name) is not None and name.upper() not in RESERVED


def is_number(text: str) -> bool:
    return _PLAIN_NUMBER.fullmatch(text) is not None


def quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"
