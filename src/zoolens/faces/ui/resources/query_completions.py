"""/choose/completions: what may stand at a place of a query."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from zoolens.base.errors import ZoolensError
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Query, Shown
from zoolens.faces.ui.resources.choose import ALONE, meant_task
from zoolens.findings.queries.completion import completions
from zoolens.findings.queries.language.syntax import Query as ParsedQuery
from zoolens.findings.queries.language.tokens import LONGEST
from zoolens.findings.queries.query import index_for


class CompletionQuery(Query):
    q: str = Field("", max_length=LONGEST, description="The query so far.")
    at: int = Field(0, ge=0, le=LONGEST, description="Where the cursor is.")


class CompletionItem(Answer):
    """`text` takes the place of q[start:end]."""

    text: Shown
    kind: str
    start: int
    end: int


class CompletionList(Answer):
    items: list[CompletionItem]


def complete(context: Context, query: CompletionQuery) -> CompletionList:
    with ALONE:
        try:
            index = index_for(ParsedQuery(), context.store, meant_task(context))
        except ZoolensError:  # there is no index yet
            return CompletionList(items=[])
        proposals = completions(query.q, query.at, index)
    return CompletionList(items=[CompletionItem.of(proposal) for proposal in proposals])


ENDPOINTS: Final = (Endpoint("/choose/completions", "Completions at a place of a query", complete),)
