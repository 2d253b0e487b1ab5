import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from rich.console import Console

from zoolens.findings.audit.audit_findings import Finding, Severity, ranked
from zoolens.findings.audit.document import ArchitectureRow, Audit, AuditedNetwork, Conformance, JudgedClaim, ZooRank
from zoolens.findings.audit.report.audit_page import html
from zoolens.findings.audit.report.audit_tables import write_csv
from zoolens.findings.audit.report.terminal import show

EVIL = "</script><script>alert(1)</script>"


def network(zoo, macs, group, name="net"):
    return AuditedNetwork(
        zoo, "resnet50", name, (f"{zoo}:{name}",), (224, 224), macs, 2 * macs, 25_557_032, 10**8, group,
        macs * 1.01, 76.13, 80.86, macs * 1.0, 25_557_032.0,
    )  # fmt: skip


def audit():
    first = replace(
        network("torchvision", 4_089_184_256, 0), parameters_held=27_161_264, parameters_held_reason="heads"
    )
    networks = (first, network("keras", 3_857_973_248, 1, EVIL))
    row = ArchitectureRow("resnet50", "ResNet-50", True, networks, 2, 1.23, 5.96, 1.06, 1.06, 1.18, "two networks")
    finding = Finding(
        "structure/stride placement", Severity.HIGH, "resnet50", ("keras:ResNet50", "torchvision:resnet50"),
        f"Keras is another network {EVIL}", ("stride 2 is on the 1×1",), "Ask for one of them by name.",
    )  # fmt: skip
    return Audit(
        (row,),
        ranked([finding, finding]),
        (ZooRank("torchvision", 1, 1, 0), ZooRank("keras", 1, 0, 1)),
        (Conformance("resnet50", "keras", "ResNet50", "He et al. 2015", "Table 1", ("=cmd()",)),),
        (JudgedClaim("keras:ResNet50", "top1", "consistent", "claims 74.9 %, measured 75.0 %: consistent"),),
        ("mxnet is not here",),
        {"summary": "1 architecture in 2 zoos"},
    )


def test_the_page_carries_all_facts_and_no_markup_of_others():
    page = html(audit())
    assert "</script><script>alert" not in page
    data = re.search(r'id="facts">(.*?)</script>', page, re.S)[1]
    assert json.loads(data) == json.loads(json.dumps(audit().as_data()))
    assert not re.search(r"""(src|href)=["']?http""", page)


def test_the_page_begins_with_findings_by_cause_and_a_grid():
    page = html(audit())
    places = [
        page.index(f'<section id="{name}">') for name in ("findings", "grid", "architectures", "ratios", "spreads")
    ]
    assert places == sorted(places)
    (cause,) = audit().as_data()["causes"]
    assert (cause["rule"], cause["findings"]) == ("structure/stride placement", (audit().findings[0].id,))


@pytest.mark.slow
def test_a_browser_draws_the_grid_and_runs_nothing_of_others(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("NO BROWSER: chromium, which this test looks at the page with, is not installed")
    (tmp_path / "audit.html").write_text(html(audit()), encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"file://{tmp_path}/audit.html"]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert drawn.count('class="place ') == 2
    assert drawn.count('role="graphics-document"') == 5  # three charts of cost, two of claims
    assert "alert(1)" not in re.sub(r"<script.*?</script>", "", drawn, flags=re.S).replace("&lt;script&gt;alert(1)", "")


def test_csv_has_a_row_for_each_fact_and_no_formula(tmp_path):
    written = {path.name: list(csv.DictReader(path.open(encoding="utf-8"))) for path in write_csv(audit(), tmp_path)}
    assert [row["macs"] for row in written["networks.csv"]] == ["4089184256", "3857973248"]
    assert written["architectures.csv"][0]["zoos"] == "keras torchvision"
    assert written["findings.csv"][0]["id"] == "structure-stride-placement:resnet50:keras:ResNet50"
    assert written["conformance.csv"][0]["departures"] == "'=cmd()"


def test_the_terminal_says_what_matters():
    stream = io.StringIO()
    show(audit(), Console(file=stream, width=160))
    text = stream.getvalue()
    for said in ("1.060×", "torchvision 76.13", "1 high, 0 medium", "0 of 1 networks conform", "mxnet is not here"):
        assert said in text


def printed(audit, width=200):
    stream = io.StringIO()
    show(audit, Console(file=stream, width=width))
    return stream.getvalue()


def row(name, zoos, *, study, spreads, ratios=(1.0, 1.0, 1.0)):
    networks = tuple(replace(network(zoo, 10**9, 0), **claims) for zoo, claims in zoos.items())
    return ArchitectureRow(name.lower(), name, study, networks, 1, *spreads, *ratios, "")


def test_only_architectures_of_the_study_are_in_its_table_and_outliers_are_no_ends():
    said = {"claimed_top1": 75.0, "best_top1": 75.0}
    odd = said | {"claimed_top1": 61.0, "outlier_first": True}
    rows = (
        row("Recent", {"keras": said, "torchvision": said}, study=False, spreads=(9.0, 9.0)),
        row(
            "Old",
            {"keras": said, "torchvision": said | {"best_top1": 80.0}, "onnx": odd},
            study=True,
            spreads=(0.0, 5.0),
        ),
    )
    text = printed(Audit(rows, (), (), (), (), ()))
    studied, _, today = text.partition("Claimed top-1 today")
    assert "Recent" not in studied
    assert "61.00" not in studied
    assert re.search(r"Recent +9\.00.*\n.*Old +5\.00 +torchvision 80\.00 +keras 75\.00", today)


def test_the_cost_table_says_which_zoos_each_ratio_is_over():
    recent = row("Recent", {"timm": {}, "keras": {}}, study=False, spreads=(None, None), ratios=(2.249, 1.0, 1.0))
    text = printed(Audit((recent,), (), (), (), (), ()))
    assert re.search(r"all zoos +study's zoos +its counters", text)
    assert re.search(r"Recent +2\.249× +1\.000× +1\.000×", text)
    assert "of the 2022 study cost the same" not in text  # it is not one of them


def test_the_same_finding_is_listed_once_and_the_gravest_first():
    low = Finding("claims/params", Severity.LOW, "a", ("x:a",), "", (), "")
    high = Finding("naming/other", Severity.HIGH, "z", ("x:z",), "", (), "")
    assert ranked([low, high, low]) == (high, low)
