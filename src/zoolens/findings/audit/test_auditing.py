"""From structures and claims to findings, on networks small enough to know by heart. No framework is needed."""

from dataclasses import replace

import pytest

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.verdicts import Outcome
from zoolens.findings.audit.architectures import ArchitectureEntry, Member
from zoolens.findings.audit.audit_findings import Finding, Severity, ranked
from zoolens.findings.audit.auditing import audit_models, choose, conclude, gather
from zoolens.findings.audit.claims import ClaimRow
from zoolens.findings.audit.grouping import DifferenceWords, StructureComparison
from zoolens.findings.audit.memo import Memo
from zoolens.findings.audit.networks import zoo_networks
from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.diff.cost_shares import INTERPLAY
from zoolens.findings.graph.diff.diff_causes import INPUT_SIZE, WIDTH
from zoolens.findings.graph.importers.importer import Importer, Request
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.serialisation import pack
from zoolens.findings.graph.structures.structure import Structure
from zoolens.findings.graph.structures.structure_sources import Source
from zoolens.inventory.manifests.schema import Input, Manifest, Output
from zoolens.inventory.zoos.listing import Listing
from zoolens.inventory.zoos.zoo import Entry, Weights


def network(width=8, epsilon=1e-5, stride_first=True, unknown=False):
    """Stem, one bottleneck block that strides in its 1×1 or its 3×3, global pool, dense."""
    build = GraphBuilder("net")
    value = build.add("input", [], (1, 3, 16, 16))

    def conv(source, inputs, out, kernel, stride, size, name):
        pads = (kernel // 2,) * 4
        parameters = [build.parameter("kernel", (out, inputs, kernel, kernel), name)]
        parameters += [build.parameter(f"norm_{role}", (out,), f"{name}.{role}") for role in ("scale", "shift")]
        return build.add(
            "conv", [source], (1, out, size, size), kernel=(kernel,) * 2, stride=(stride,) * 2, pads=pads,
            norm="batch", epsilon=epsilon, parameters=parameters, source=name,
        )  # fmt: skip

    stem = build.add("relu", [conv(value, 3, width, 3, 1, 16, "stem")], (1, width, 16, 16))
    first, second = (2, 1) if stride_first else (1, 2)
    inner = 16 // first
    main = build.add("relu", [conv(stem, width, 4, 1, first, inner, "one")], (1, 4, inner, inner))
    main = build.add("relu", [conv(main, 4, 4, 3, second, 8, "two")], (1, 4, 8, 8))
    main = conv(main, 4, 16, 1, 1, 8, "three")
    total = build.add("add", [main, conv(stem, width, 16, 1, 2, 8, "short")], (1, 16, 8, 8))
    value = build.add("relu", [total], (1, 16, 8, 8))
    if unknown:
        value = build.unknown("Sorcery", [value], (1, 16, 8, 8))
    pooled = build.add("global_avg_pool", [value], (1, 16))
    scores = build.add("dense", [pooled], (1, 10), parameters=[build.parameter("kernel", (10, 16), "head")])
    return build.finish([scores])


def member(architecture, zoo, name="net", rank=0):
    manifest = Manifest(name=name, inputs=(Input(shape=(1, 3, 16, 16)),), outputs=(Output(),))
    return Member(architecture, Entry(zoo, manifest, Weights.ABSENT), rank)


def known(member, graph):
    total = cost(graph)
    figures = {
        "macs": total.macs, "flops": total.flops, "parameters": total.parameters, "peak_bytes": total.peak_bytes,
        "unknown_operators": sum(total.unknown.values()),
    }  # fmt: skip
    return Structure(member.entry, packed=pack(graph), figures=figures)


def architecture(name="tiny", family="Tiny"):
    members = dict.fromkeys(("one", "two", "three", "four"), ("net",))
    return ArchitectureEntry(name, name.title(), family, 2020, "", False, members)


def audited(graphs, claims=(), name="tiny"):
    entry = architecture(name)
    found = [member(entry, zoo) for zoo in graphs]
    structures = [known(one, graphs[one.zoo]) for one in found]
    return conclude(gather({name: found}, structures, claims, [], Memo()), [], {})


def test_equal_networks_are_one_group_and_no_finding():
    audit = audited({"one": network(), "two": network()})
    assert audit.findings == ()
    assert (audit.architectures[0].groups, audit.architectures[0].macs_ratio) == (1, 1.0)
    assert "one and two agree" in audit.architectures[0].summary


def test_another_stride_is_another_network_and_the_odd_one_is_named():
    audit = audited({"one": network(stride_first=False), "two": network(), "three": network()})
    graves = [finding for finding in audit.findings if finding.severity is Severity.HIGH]
    assert [finding.rule for finding in graves] == ["structure/stride placement"]
    assert graves[0].models == ("one:net", "two:net")
    assert any("3×3" in line and "1×1" in line for line in graves[0].evidence)
    assert {row.zoo: row.group for row in audit.architectures[0].networks} == {"two": 0, "three": 0, "one": 1}
    assert audit.architectures[0].macs_ratio > 1.01
    shortcuts = next(finding for finding in audit.findings if finding.rule == "shortcuts/equal")
    assert "all 3 zoos have exactly 1 convolution" in shortcuts.title
    assert "stride placement" in shortcuts.title


def test_other_constants_are_the_same_network_and_a_small_finding():
    audit = audited({"one": network(), "two": network(epsilon=1e-3)})
    assert [(finding.rule, finding.severity) for finding in audit.findings] == [
        ("constants/norm epsilon", Severity.LOW)
    ]
    assert audit.architectures[0].groups == 1


def test_a_network_under_anothers_name_is_found_out():
    slim, wide = architecture("slim"), architecture("wide")
    chosen = {
        "slim": [member(slim, "one", "a"), member(slim, "two", "b")],
        "wide": [member(wide, "one", "c"), member(wide, "two", "d"), member(wide, "three", "liar")],
    }
    graphs = {"a": network(8), "b": network(8), "c": network(12), "d": network(12), "liar": network(8)}
    structures = [known(one, graphs[one.entry.manifest.name]) for found in chosen.values() for one in found]
    audit = conclude(gather(chosen, structures, [], [], Memo()), [], {})
    named = [finding for finding in audit.findings if finding.rule == "naming/other architecture"]
    assert [finding.models for finding in named] == [("three:liar",)]
    assert "is called Wide but is Slim" in named[0].title


def claim(ref, metric, value, unit=""):
    return ClaimRow(ref, metric, value, unit, "ImageNet-1K" if metric == "top1" else "", "its README")


def test_claims_are_held_against_each_other_and_against_what_is_counted():
    graph = network()
    claims = [
        claim("one:net", "params", graph.parameters * 2.0),
        claim("two:net", "params", float(graph.parameters)),
        claim("one:net", "flops", cost(graph).flops, "operations"),
        claim("two:net", "flops", cost(graph).macs, "multiply-adds"),
    ]
    audit = audited({"one": graph, "two": graph}, claims)
    (finding,) = audit.findings
    assert (finding.rule, finding.models) == ("claims/parameters", ("one:net",))
    assert "+100.0 %" in finding.title


def test_parameters_that_a_source_holds_stand_beside_those_in_use():
    graph = network()
    held = replace(graph, facts={"parameters_total": graph.parameters + 100, "unused": {"aux": 100}})
    audit = audited({"one": held, "two": graph}, [claim("one:net", "params", graph.parameters * 3.0)])
    one, two = audit.architectures[0].networks
    assert (one.parameters, one.parameters_held) == (graph.parameters, graph.parameters + 100)
    assert one.parameters_held_reason == "100 lead to no output (aux 100)"
    assert (two.parameters_held, two.parameters_held_reason) == (None, "")
    told = f"{graph.parameters:,} ({graph.parameters + 100:,} held: 100 lead to no output (aux 100))"
    assert f"parameters: {told}" in audit.findings[0].evidence


def folded(graph):
    return graph.parameters - sum(one.size for node in graph for one in node.parameters if one.role == "norm_scale")


@pytest.mark.parametrize(
    ("size", "rules"),
    [
        (lambda numbers: 4 * numbers, set()),  # norms folded: less than the parameters, but all that is needed
        (lambda numbers: 4 * numbers - 1, {"claims/file size", "naming/file size"}),
        (lambda numbers: 2 * numbers + 10, {"claims/half precision"}),
        (lambda numbers: numbers, {"claims/file size", "naming/file size"}),
    ],
)
def test_a_file_too_small_is_another_network_only_where_its_own_is_not_known(size, rules):
    entry, graph = architecture(), network()
    built, elsewhere = member(entry, "one"), member(entry, "two")
    claims = [claim(ref, "file_size", size(folded(graph)) + 1e-9, "B") for ref in ("one:net", "two:net")]
    structures = [known(built, graph), Structure(elsewhere.entry, error="It is not on this machine.")]
    audit = conclude(gather({"tiny": [built, elsewhere]}, structures, claims, [], Memo()), [], {})
    assert {finding.rule for finding in audit.findings} == rules
    assert all(one.models == ("two:net",) for one in audit.findings if one.rule == "naming/file size")


def test_whole_mebibytes_are_rounded_ones():
    entry, graph = architecture(), network(width=56_000)
    built, elsewhere = member(entry, "one"), member(entry, "two")
    structures = [known(built, graph), Structure(elsewhere.entry, error="It is not on this machine.")]
    needed = 4 * folded(graph) / 2**20
    assert int(needed) < needed < int(needed) + 0.5
    for mebibytes, count in ((int(needed), 0), (int(needed) - 1, 1)):
        claims = [claim("two:net", "file_size", mebibytes * 2.0**20, "B")]
        audit = conclude(gather({"tiny": [built, elsewhere]}, structures, claims, [], Memo()), [], {})
        assert len(audit.findings) == count


def test_a_misnamed_network_says_nothing_about_the_size_of_its_namesakes():
    slim, wide = architecture("slim"), architecture("wide")
    chosen = {
        "slim": [member(slim, "one", "a"), member(slim, "two", "b")],
        "wide": [member(wide, zoo, name) for zoo, name in zip(("one", "two", "three", "four"), "cdef", strict=True)],
    }
    graphs = {"a": network(8), "b": network(8), "c": network(12), "d": network(12), "e": network(8)}
    every = [one for found in chosen.values() for one in found]
    structures = [
        known(one, graphs[one.entry.manifest.name])
        if one.entry.manifest.name in graphs
        else Structure(one.entry, error="It is not on this machine.")
        for one in every
    ]
    claims = [claim("four:f", "file_size", 4.0 * folded(network(8)) + 1, "B")]
    audit = conclude(gather(chosen, structures, claims, [], Memo()), [], {})
    (small,) = [finding for finding in audit.findings if finding.rule == "naming/file size"]
    assert small.models == ("four:f",)
    assert "fit slim" in small.evidence[1]


def test_the_main_cause_makes_another_network_and_interplay_is_none():
    size, join, width = (DifferenceWords(cause, "", 0) for cause in (INPUT_SIZE, INTERPLAY, WIDTH))
    larger = StructureComparison(None, None, "", (join, size))
    assert (larger.causes, larger.same_network) == ((INPUT_SIZE,), True)
    other = StructureComparison(None, None, "", (size, join, width))
    assert (other.main_cause, other.same_network) == (WIDTH, False)
    assert (
        StructureComparison(
            None, None, "", (DifferenceWords(INPUT_SIZE, "", 900), DifferenceWords(WIDTH, "", 3))
        ).structural_macs
        == 3
    )


def test_two_structures_under_one_name_are_told_apart():
    """As where some weights of an architecture want a larger image."""
    entry = architecture()
    found = [member(entry, "one", f"net/{size}") for size in (16, 32)]
    structures = []
    for one in found:
        one.entry.manifest.attributes["library"] = "toy"
        request = Request("net", size=(int(one.entry.manifest.name[-2:]),) * 2)
        source = Source("toy:net", "toy", "toy:TOY", Importer(None, ()), request, {})
        structures.append(replace(known(one, network()), source=source))
    networks = zoo_networks({"tiny": found}, structures, Memo())["tiny"]
    assert [one.label for one in networks] == ["one net", "one net/32"]


def test_of_findings_with_one_id_the_first_stays():
    first, second = (Finding("a/b", Severity.LOW, "x", ("z:m",), title, (), "") for title in ("newest", "oldest"))
    assert ranked([first, second]) == (first,)


def test_what_cannot_be_read_is_a_finding_unless_its_file_is_elsewhere():
    entry = architecture()
    good, elsewhere = member(entry, "one"), member(entry, "two")
    structures = [known(good, network(unknown=True)), Structure(elsewhere.entry, error="It is not on this machine.")]
    audit = conclude(gather({"tiny": [good, elsewhere]}, structures, [], [], Memo()), [], {})
    assert [finding.rule for finding in audit.findings] == ["failures/unknown operators"]
    assert audit.findings[0].evidence == ("Sorcery",)
    assert audit.architectures[0].networks[1].error == "It is not on this machine."


def test_accepted_findings_are_left_out_and_a_stale_id_is_an_error():
    audit = audited({"one": network(), "two": network(epsilon=1e-3)})
    assert audit.without([audit.findings[0].id]).findings == ()
    with pytest.raises(UnknownName, match="nonsense"):
        audit.without(["nonsense"])


def test_names_that_nobody_knows_are_refused_with_a_suggestion():
    with pytest.raises(UnknownName, match="resnet5"):
        choose((), ["resnet5"])
    with pytest.raises(UnknownName, match="torchvison"):
        choose(["torchvison"], [])


def test_architectures_may_be_patterns_or_references():
    chosen, _ = choose(["gluon", "slim"], ["vgg1[69]", "gluon:squeezenet1.1"])
    assert set(chosen) == {"vgg16", "vgg19", "squeezenet1_1"}
    assert {one.zoo for one in chosen["vgg16"]} == {"gluon", "slim"}


def test_a_zoo_asked_for_by_name_that_is_not_here_is_an_error(monkeypatch):
    """A gate over nothing would always pass."""
    note = "timm: The timm zoo needs timm, which is not installed."
    monkeypatch.setattr(
        "zoolens.findings.audit.auditing.listing", lambda zoo: Listing([], [note] if zoo == "timm" else [])
    )
    with pytest.raises(ZoolensError, match="timm, which is not installed"):
        choose(["torchvision", "timm"], [])
    assert choose([], ["alexnet"]) == ({}, [note])


def test_what_could_not_be_looked_at_and_whom_to_trust_is_noted(tmp_path, monkeypatch):
    entry = architecture()
    monkeypatch.setattr("zoolens.findings.audit.auditing.choose", lambda *_: ({"tiny": [member(entry, "one")]}, []))
    audit = audit_models(store=tmp_path / "store.sqlite", trusted=["mistyped"])
    trusted, absent = audit.notes
    assert "'mistyped'" in trusted
    assert "1 network whose file is not here, such as one:net" in absent
    assert audit.facts["summary"].startswith("0 architectures whose structure is known in two zoos or more, 1 zoo: 0")


# --- what is not understood


def test_operators_that_are_not_understood_make_no_difference_and_no_agreement():
    audit = audited({"one": network(), "two": network(), "three": network(unknown=True)})
    row = audit.architectures[0]
    assert row.groups == 1
    assert {found.zoo: found.group for found in row.networks} == {"one": 0, "two": 0, "three": None}
    assert "one and two agree" in row.summary
    assert "not known of three" in row.summary
    assert [(finding.rule, finding.severity) for finding in audit.findings] == [
        ("failures/unknown operators", Severity.LOW),
        ("structure/not known", Severity.INFO),
    ]
    assert "Understood: " in audit.findings[1].evidence[0]
    assert audit.decision.outcome is Outcome.NOT_KNOWN
    assert audit.as_data()["coverage"]["understood"]["networks"] == {"understood": 2, "total": 3, "share": 2 / 3}


def test_what_is_understood_of_a_network_may_prove_that_it_is_another():
    audit = audited({"one": network(), "two": network(), "three": network(width=12, unknown=True)})
    assert audit.architectures[0].groups == 2
    assert "structure/width" in {finding.rule for finding in audit.findings}
    assert audit.architectures[0].macs_ratio == 1.0  # a lower bound is held against nothing


def test_two_networks_with_one_operator_that_is_not_understood_are_not_said_to_agree():
    audit = audited({"one": network(unknown=True), "two": network(unknown=True)})
    assert "structure/not known" in {finding.rule for finding in audit.findings}
    assert "agree" not in audit.architectures[0].summary


def test_a_lower_bound_refutes_smaller_claims_only():
    graph = network(unknown=True)
    for factor, refuted in ((3.0, False), (0.5, True)):
        audit = audited({"one": graph}, [claim("one:net", "params", graph.parameters * factor)])
        assert ("claims/parameters" in {finding.rule for finding in audit.findings}) is refuted
