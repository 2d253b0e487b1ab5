"""Contested inputs as a contact sheet: one page with every picture, what it is, and what each model says.

The page needs nothing else: pictures are embedded. All names come from files of unknown origin and pass `safe`.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoolens.comparisons.disagreements import Contested, Disagreements, readable
from zoolens.comparisons.origins import open_inputs
from zoolens.comparisons.picture import safe
from zoolens.comparisons.runs import short_names
from zoolens.datasets.base import Dataset

SIDE: Final = 196  # of a picture, in pixels
LONGEST: Final = 60

STYLE: Final = """
:root{color-scheme:light dark;--ink:#1f2933;--dim:#5f6b78;--card:#f5f7fa;--line:#d5dbe1;--page:#fff;--right:#1a7f4b;
--wrong:#b3261e}@media (prefers-color-scheme:dark){:root{--ink:#e6e9ec;--dim:#a3adb8;--card:#1d232a;--line:#39424c;
--page:#14181d;--right:#5fcf93;--wrong:#ff9a91}}
body{font:14px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:1400px;margin:2rem auto;
padding:0 1rem}h1{font-size:1.35rem;margin-bottom:.2rem}.dim{color:var(--dim)}
.sheet{display:grid;grid-template-columns:repeat(auto-fill,minmax(250px,1fr));gap:14px;margin-top:1.2rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px}
.card img,.none{width:196px;height:196px;object-fit:contain;display:block;margin:0 auto 8px;image-rendering:pixelated}
.none{display:flex;align-items:center;justify-content:center;color:var(--dim);border:1px dashed var(--line)}
.truth{font-weight:600}table{width:100%;border-collapse:collapse;margin-top:6px;font-size:13px}
table{table-layout:fixed}.dim,.truth{overflow-wrap:anywhere}
td{padding:1px 8px 1px 0;vertical-align:top}td.who{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
td.n{text-align:right;font-variant-numeric:tabular-nums;padding:1px 0;width:17%;white-space:nowrap}
td.who{color:var(--dim);width:40%}
.right{color:var(--right)}.wrong{color:var(--wrong)}
"""


def html(found: Disagreements) -> str:
    """The page. The data are opened again where the run found them; refused where they have changed."""
    names = short_names([one.run for one in found.panel])
    with closing(open_inputs(found.run)) as dataset:
        cards = "".join(_card(found, names, one, dataset) for one in found.inputs)
    title = f"Where {names[0]} and its nearest equivalents disagree"
    shown = f", the {len(found.inputs):,} most contested shown" if len(found.inputs) < found.total else ""
    share = 100 * found.total / found.run.inputs
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width"><meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<title>{safe(title, 200)}</title><style>{STYLE}</style></head><body><h1>{safe(title, 200)}</h1>"
        f'<p class="dim">{found.total:,} of {found.run.inputs:,} inputs of {safe(found.dataset, 120)} '
        f"({share:.1f} %) are not answered alike by all{shown}. {_panel(found, names)}</p>"
        f'<div class="sheet">{cards}</div></body></html>\n'
    )


def _panel(found: Disagreements, names: Sequence[str]) -> str:
    others = [
        f"{safe(name, LONGEST)} {100 * one.agreement:.1f} %"
        for name, one in zip(names[1:], found.panel[1:], strict=True)
    ]
    return f"Agreement with {safe(names[0], LONGEST)}: {', '.join(others)}."


def _card(found: Disagreements, names: Sequence[str], one: Contested, dataset: Dataset) -> str:
    return (
        f'<div class="card">{_image(dataset.read(one.index).value)}'
        f'<div class="truth">{safe(found.class_name(one.label), LONGEST)}</div>'
        f'<div class="dim">input {safe(one.input, LONGEST)} · {one.entropy:.2f} bits of dissent</div>'
        f"<table>{''.join(_votes(found, names, one))}</table></div>"
    )


def _votes(found: Disagreements, names: Sequence[str], one: Contested) -> Iterator[str]:
    for name, neighbour, vote in zip(names, found.panel, one.votes, strict=True):
        style = "right" if vote.answer == one.label else "wrong"
        answer = found.class_name(vote.answer)
        yield (
            f'<tr><td class="who" title="{safe(neighbour.run.ref, 120)}">{safe(name, LONGEST)}</td>'
            f'<td class="{style}" title="{safe(answer, 120)}">{safe(readable(answer), LONGEST)}</td>'
            f'<td class="n">{"" if vote.score is None else f"{100 * vote.score:.0f} %"}</td></tr>'
        )


def _image(value: NDArray[Any]) -> str:
    if value.dtype != np.uint8 or value.ndim != 3 or value.shape[2] not in (1, 3):
        return '<div class="none">no picture</div>'
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(png(value)).decode("ascii")}">'


def png(value: NDArray[np.uint8]) -> bytes:
    """A picture of at most SIDE pixels a side; small ones are enlarged by whole steps, so that pixels stay pixels."""
    image = Image.fromarray(value[:, :, 0] if value.shape[2] == 1 else value)
    largest = max(image.size)
    if largest > SIDE:
        image.thumbnail((SIDE, SIDE))
    elif SIDE // largest > 1:
        factor = SIDE // largest
        image = image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    stream = io.BytesIO()
    image.save(stream, format="PNG", optimize=True)
    return stream.getvalue()
