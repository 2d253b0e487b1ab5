"""The diff as one HTML page that needs nothing else: verdict, figures, differences, picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zoolens.graph.diff.picture import safe, svg
from zoolens.graph.diff.report import Diff
from zoolens.graph.diff.verdict import amount

LONGEST: Final = 1000
STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;color:#1f2933;max-width:1060px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}table{border-collapse:collapse;width:100%;margin:1rem 0}
th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid #e4e7eb;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.verdict{font-weight:600;background:#f5f7fa;border-left:4px solid #b35c00;padding:.6rem 1rem}
.verdict.same{border-color:#2f855a}.cause{white-space:nowrap;color:#52606d}svg{max-width:100%;height:auto}
"""


def html(diff: Diff) -> str:
    names = " and ".join(safe(name, LONGEST) for name in diff.names)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{names}</title>'
        '<meta name="viewport" content="width=device-width"><meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{STYLE}</style></head><body><h1>{names}</h1>"
        f'<p class="verdict{" same" if diff.same else ""}">{safe(_sentence(diff.verdict), LONGEST)}</p>'
        f"{_figures(diff)}{_differences(diff)}{svg(diff, legend=False)}</body></html>\n"
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _figures(diff: Diff) -> str:
    rows = (
        ("multiply-accumulates", diff.cost_a.macs, diff.cost_b.macs),
        ("parameters", diff.cost_a.parameters, diff.cost_b.parameters),
    )
    head = "".join(f'<th class="n">{safe(name, LONGEST)}</th>' for name in diff.names)
    body = "".join(
        f'<tr><td>{name}</td><td class="n">{one:,}</td><td class="n">{two:,}</td><td class="n">{two - one:+,}</td></tr>'
        for name, one, two in rows
    )
    return f'<table><tr><th></th>{head}<th class="n">difference</th></tr>{body}</table>'


def _differences(diff: Diff) -> str:
    if diff.same:
        return ""
    head = '<tr><th class="n">#</th><th>cause</th><th>what differs</th><th class="n">MACs</th>'
    head += '<th class="n">share</th><th class="n">parameters</th></tr>'
    return f"<table>{head}{''.join(_rows(diff))}</table>"


def _rows(diff: Diff) -> Iterator[str]:
    for number, one in enumerate(diff.differences, 1):
        share = f"{100 * one.macs / diff.macs_gap:.1f} %" if diff.macs_gap and one.macs else ""
        macs = amount(one.macs) if one.macs else ""
        parameters = f"{one.parameters:+,}" if one.parameters else ""
        yield (
            f'<tr><td class="n">{number}</td><td class="cause">{safe(one.cause)}</td><td>{safe(one.text, LONGEST)}</td>'
            f'<td class="n">{macs}</td><td class="n">{share}</td><td class="n">{parameters}</td></tr>'
        )
