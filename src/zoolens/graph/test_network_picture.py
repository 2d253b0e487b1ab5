from xml.etree import ElementTree

from zoolens.graph.builder import GraphBuilder
from zoolens.graph.network_picture import network_svg


def chain(blocks):
    """Convolutions whose later ones cost more."""
    build = GraphBuilder("chain")
    value, channels = build.add("input", [], (1, 3, 8, 8)), 3
    for number in range(blocks):
        kernel = build.parameter("kernel", (8, channels, 3, 3), f"k{number}")
        value = build.add("conv", [value], (1, 8, 8, 8), kernel=(3, 3), pads=(1, 1, 1, 1), parameters=[kernel])
        value, channels = build.add("relu", [value], (1, 8, 8, 8)), 8
    return build.finish([value])


def test_layers_are_named_with_what_they_cost_and_names_are_text():
    picture = network_svg(chain(2), "<script>alert(1)</script>")
    words = [element.text for element in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]
    assert words[0] == "<script>alert(1)</script>"
    assert sum("3×3 conv 8" in (word or "") for word in words) == 2
    assert any("MACs, 100 %" in (word or "") for word in words)
    assert "<script" not in picture


def test_the_costly_block_is_darker():
    assert "#f4f6f8" in network_svg(chain(1), "small")  # the input costs nothing
    assert network_svg(chain(1), "small") != network_svg(chain(3), "small")
