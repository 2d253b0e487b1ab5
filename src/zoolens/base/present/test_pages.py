import base64
import hashlib
import json
import re

import pytest

from zoolens.base.present.charts import Chart
from zoolens.base.present.notebook import Shown
from zoolens.base.present.pages import Page, Section, page_html, render, settings_words
from zoolens.base.present.tables import Column, Link, Table
from zoolens.base.verdicts import Coverage, Gap, Tally, judged

EVIL = "</script><script>alert(1)</script>"
CHART = Chart("points", "points", {"data": {"values": [{"of": EVIL}]}, "mark": "circle"})


def test_the_policy_names_every_script_of_the_page_and_no_other():
    page = page_html(Page("t", sections=(Section(charts=(CHART,)),)))
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    policy = re.search(r'Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
    assert policy.partition("script-src ")[2].split() == [f"'sha256-{one}'" for one in digests]
    assert "unsafe-inline" not in policy.partition("script-src")[2]
    assert "unsafe-eval" not in policy
    assert len(scripts) == 2
    assert "script-src &#39;none&#39;" in page_html(Page("t"))


def test_a_spec_cannot_end_its_script_element():
    page = page_html(Page("t", sections=(Section(charts=(CHART,)),)))
    assert EVIL not in page
    spec = re.search(r'data-chart="points".*?<script[^>]*>(.*?)</script>', page, re.S)[1]
    assert json.loads(spec)["data"] == CHART.spec["data"]


def test_every_text_is_escaped_cut_and_clean():
    table = Table("t", (Column(EVIL), Column("to", "link")), ((EVIL, Link(EVIL, EVIL)),))
    page = page_html(
        Page(
            EVIL,
            "x" * 5000,
            EVIL,
            sections=(Section(EVIL, ("\x00\x1b[31m",), tables=((EVIL, table),)),),
            facts={1: EVIL},
        )
    )
    assert EVIL not in page
    assert "\x00" not in page
    assert "x" * 999 + "…" in page
    assert "x" * 1000 not in page


def test_a_page_says_the_name_of_a_file_and_not_where_it_lies():
    data = {"/home/someone/a.onnx": ["read /home/someone/models/net.onnx", {"n": 1}]}
    page = render("audit.html", title="t", data=data, lead="/home/someone/b.npz", figures=(), ratios=(), spreads=())
    assert "someone" not in page
    assert json.loads(re.search(r'id="facts">(.*?)</script>', page, re.S)[1]) == {"a.onnx": ["read net.onnx", {"n": 1}]}
    assert "<p>b.npz</p>" in page


def test_rows_of_a_table_that_chance_explains_are_pale_and_empty_columns_are_left_out():
    table = Table("t", (Column("a"), Column("p", "p"), Column("none")), (("one", 0.5, None), ("two", 0.001, "")))
    page = page_html(Page("t", sections=(Section(tables=(("", table),)),)))
    assert re.findall(r'<tr( class="weak")?>\s*<td class="text">(\w+)', page) == [(' class="weak"', "one"), ("", "two")]
    assert ">none<" not in page


def test_sections_with_titles_are_linked_in_their_order():
    page = page_html(Page("t", sections=(Section("One"), Section(paragraphs=("between",)), Section("Two"))))
    assert re.findall(r'<a href="#(s\d)">(\w+)</a>', page) == [("s1", "One"), ("s2", "Two")]
    assert re.findall(r'<section id="(s\d)"><h2>(\w+)', page) == [("s1", "One"), ("s2", "Two")]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": 1, "none": None, "b": {"c": [1.5, 2]}}, "a 1, b (c (1.5; 2))"),
        ({"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}}, "a (b (c (d (e (…)))))"),
        (12345, "12,345"),
        (None, "–"),
    ],
)
def test_settings_in_words(value, words):
    assert settings_words(value) == words


PARTIAL = Coverage((Tally("layers", 6, 7),), (Gap("operator Swirl", 1, "Export it."),))
WHOLE = Coverage((Tally("layers", 7, 7),))


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        (judged(WHOLE, different=False), "good"),
        (judged(WHOLE, different=True), ""),
        (judged(PARTIAL, different=True), ""),
        (judged(PARTIAL, different=False), "unknown"),
    ],
)
def test_each_outcome_has_its_own_style_and_partial_coverage_is_told(verdict, kind):
    shown = Page("t", verdict="The sentence.", judged=verdict)
    html, text = Shown(shown)._repr_html_(), repr(Shown(shown))
    assert f'class="verdict {kind}"' in page_html(shown)
    assert f'class="verdict {kind}"' in html
    for written in (page_html(shown), html, text):
        assert ("Not understood: operator Swirl." in written) == (verdict.coverage is PARTIAL)
        assert ("Export it." in written) == (verdict.coverage is PARTIAL)


def test_coverage_that_the_verdict_tells_itself_is_not_told_twice():
    verdict = judged(PARTIAL, different=False)
    page = Page("t", verdict=f"Not known. {verdict.coverage.text}", judged=verdict)
    assert page.coverage == ("Export it.",)
