from zoolens.findings.audit.audit_causes import causes
from zoolens.findings.audit.audit_findings import Finding, Severity

FAMILIES = {"resnet50": "ResNet", "resnet101": "ResNet", "vgg16": "VGG", "squeezenet1_0": "SqueezeNet"}


def finding(rule, architecture, model, severity=Severity.HIGH, macs=()):
    return Finding(rule, severity, architecture, (model,), f"{model} differs", (), "", {"macs": list(macs)})


def test_findings_of_one_family_and_rule_are_one_cause_and_the_most_important_comes_first():
    found = causes(
        [
            finding("structure/stride placement", "resnet50", "keras:ResNet50", macs=(100, 94)),
            finding("structure/stride placement", "resnet101", "slim:resnet_v1_101", macs=(100, 50)),
            finding("structure/width", "vgg16", "gluon:vgg16"),
            finding("naming/other architecture", "squeezenet1_0", "onnx:squeezenet"),
            finding("structure/stride placement", "resnet50", "gluon:resnet50", Severity.MEDIUM),
        ],
        FAMILIES,
    )
    assert [(one.severity, one.rule, one.family, len(one.findings)) for one in found] == [
        (Severity.HIGH, "naming/other architecture", "SqueezeNet", 1),
        (Severity.HIGH, "structure/stride placement", "ResNet", 2),
        (Severity.HIGH, "structure/width", "VGG", 1),
        (Severity.MEDIUM, "structure/stride placement", "ResNet", 1),
    ]
    strides = found[1]
    assert strides.zoos == ("slim", "keras")  # the larger gap first
    assert strides.architectures == ("resnet101", "resnet50")
    assert strides.title == "slim:resnet_v1_101 differs"
    assert strides.gap == 2.0


def test_every_finding_belongs_to_exactly_one_cause():
    every = [finding("structure/width", name, f"keras:{name}") for name in FAMILIES]
    told = [id_ for cause in causes(every, FAMILIES) for id_ in cause.findings]
    assert sorted(told) == sorted(one.id for one in every)


def test_an_architecture_of_no_known_family_is_its_own():
    (cause,) = causes([finding("structure/width", "new_net", "timm:new_net")], {})
    assert cause.family == "new_net"
