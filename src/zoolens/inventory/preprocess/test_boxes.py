import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import DatasetError, ManifestError, ModelError
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_boxes import Letterbox
from zoolens.inventory.preprocess.box_formats import FORMATS, clip, convert, to_pixels, to_shares
from zoolens.inventory.preprocess.letterbox import (
    FITS,
    boxes_back,
    boxes_onto,
    declared_framing,
    framing,
    mask_back,
    mask_onto,
    place_image,
)
from zoolens.inventory.preprocess.pipeline import build_prepare
from zoolens.inventory.preprocess.suppression import Suppression, suppress
from zoolens.inventory.runtimes.runtime import TensorSpec

SAME = {"xyxy": [10, 20, 40, 80], "yxyx": [20, 10, 80, 40], "xywh": [10, 20, 30, 60], "cxcywh": [25, 50, 30, 60]}


@pytest.mark.parametrize("given_format", FORMATS)
@pytest.mark.parametrize("wanted", FORMATS)
def test_one_box_in_every_format(given_format, wanted):
    assert convert([SAME[given_format]], given_format, wanted).tolist() == [SAME[wanted]]
    assert convert([], given_format, wanted).shape == (0, 4)


@pytest.mark.parametrize("name", FORMATS)
def test_shares_and_pixels(name):
    shares = to_shares([SAME[name]], name, (100, 50))
    assert convert(shares, name, "xyxy").tolist() == [pytest.approx([0.2, 0.2, 0.8, 0.8])]
    assert to_pixels(shares, name, (100, 50))[0] == pytest.approx(SAME[name])


def test_clipping_moves_corners_to_the_border():
    assert clip([[-5, -5, 3, 200], [60, 0, 70, 1]], (100, 50)).tolist() == [[0, 0, 3, 100], [50, 0, 50, 1]]


@pytest.mark.parametrize(
    ("boxes", "sentence"),
    [
        ([[0, 0, np.inf, 1]], "its numbers must be finite"),
        ([[5, 0, 1, 1]], "read as left, top, right, bottom, a side is negative"),
        ([0, 0, 1, 1], "expected one row of 4 numbers"),
    ],
)
def test_boxes_without_meaning_are_refused(boxes, sentence):
    with pytest.raises(ModelError, match=sentence):
        convert(boxes, "xyxy", "xywh")


def test_unknown_formats_and_empty_images_are_refused():
    with pytest.raises(ManifestError, match="There is no box format 'ltrb'"):
        convert([], "ltrb", "xyxy")
    with pytest.raises(ManifestError, match="There is no box format 'ltrb'"):
        convert([], "xyxy", "ltrb")
    with pytest.raises(ModelError, match="0 × 5 pixels has no boxes"):
        to_pixels([], "xyxy", (5, 0))


@pytest.mark.parametrize(
    ("fit", "image", "canvas", "content", "corner"),
    [
        ("stretch", (426, 640), (300, 300), (300, 300), (0, 0)),
        ("letterbox", (426, 640), (640, 640), (426, 640), (107, 0)),
        # 213 rows of padding: 106 above, 107 below
        ("letterbox", (427, 640), (640, 640), (427, 640), (106, 0)),
        ("letterbox", (375, 500), (640, 640), (480, 640), (80, 0)),
        ("letterbox", (640, 428), (640, 640), (640, 428), (0, 106)),
        ("top_left", (426, 640), (513, 513), (341, 513), (0, 0)),
        ("top_left", (640, 586), (513, 513), (513, 469), (0, 0)),
    ],
)
def test_where_an_image_lies(fit, image, canvas, content, corner):
    frame = framing(fit, image, canvas)
    assert frame.content == content
    assert frame.corner == corner


sides = st.integers(2, 60)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FITS), st.tuples(sides, sides), st.tuples(st.integers(60, 90), st.integers(60, 90)))
def test_boxes_and_masks_come_back(fit, image, canvas):
    frame = framing(fit, image, canvas)
    random = np.random.default_rng(0)
    corners = np.sort(random.uniform(-5, 70, (20, 2, 2)), axis=1).reshape(20, 4)
    np.testing.assert_allclose(boxes_back(boxes_onto(corners, frame), frame), corners, rtol=0, atol=1e-12)
    whole = [[0, 0, image[1], image[0]]]
    (top, left), (height, width) = frame.corner, frame.content
    np.testing.assert_allclose(boxes_onto(whole, frame), [[left, top, left + width, top + height]])
    mask = random.integers(0, 21, image)
    placed = mask_onto(mask, frame, 255)
    assert (mask_back(placed, frame) == mask).all()
    assert (placed == 255).sum() == placed.size - height * width


def test_an_image_is_placed_and_padded():
    placed = place_image(np.full((2, 4, 3), 7, np.uint8), framing("letterbox", (2, 4), (8, 8)), 114, "bilinear", "pil")
    assert placed.dtype == np.uint8
    assert placed[:, 0, 0].tolist() == [114, 114, 7, 7, 7, 7, 114, 114]


def test_frames_without_meaning_are_refused():
    with pytest.raises(ManifestError, match="There is no fit 'crop'"):
        framing("crop", (5, 5), (5, 5))
    with pytest.raises(DatasetError, match="10000 × 1 pixels is too narrow"):
        framing("letterbox", (1, 10_000), (640, 640))
    with pytest.raises(DatasetError, match="cannot lie on"):
        framing("stretch", (0, 5), (640, 640))
    with pytest.raises(ModelError, match="expected 8 × 8"):
        mask_back(np.zeros((7, 8)), framing("stretch", (2, 2), (8, 8)))


HALF = [[0, 0, 10, 10], [0, 0, 10, 5]]  # overlap 0.5


def kept(boxes, scores, classes=None, **rule):
    return suppress(
        boxes, scores, classes, Suppression(**{"overlap": 0.5, "most": 9, "class_aware": False} | rule)
    ).tolist()


def test_an_overlap_of_exactly_the_threshold():
    assert kept(HALF, [0.9, 0.8]) == [0, 1]
    assert kept(HALF, [0.9, 0.8], strict=False) == [0]
    assert kept(HALF, [0.8, 0.9], strict=False) == [1]


def test_only_boxes_of_the_same_class_are_removed_if_classes_count():
    assert kept([HALF[0]] * 3, [0.9, 0.8, 0.7], [1, 2, 1], class_aware=True) == [0, 1]
    assert kept([HALF[0]] * 3, [0.9, 0.8, 0.7], [1, 2, 1]) == [0]


def test_an_offset_of_one_makes_sides_longer():
    """Widths of 10 and 5 become 11 and 6, so that 6 / 11 is above a half."""
    assert kept(HALF, [0.9, 0.8], offset=1) == [0]


def test_equal_scores_keep_the_first_and_a_removed_box_removes_none():
    assert kept([HALF[0]] * 2, [0.5, 0.5]) == [0]
    chain = [[0, 0, 10, 10], [3, 0, 13, 10], [6, 0, 16, 10]]
    assert kept(chain, [0.9, 0.8, 0.7]) == [0, 2]


def test_empty_boxes_and_no_boxes():
    assert kept([[5, 5, 5, 5]] * 2, [0.9, 0.8]) == [0, 1]
    assert kept([], []) == []


def test_a_hundred_thousand_boxes_are_bounded_by_how_many_are_kept():
    boxes = np.arange(400_000.0).reshape(-1, 4)
    assert kept(boxes, np.linspace(1, 0, 100_000), most=50) == list(range(50))


def test_onnx_runtime_keeps_the_same_boxes():
    onnxruntime, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    shapes = {"b": (kinds.FLOAT, [1, 40, 4]), "s": (kinds.FLOAT, [1, 1, 40]), "m": (kinds.INT64, [1])}
    given_names = [helper.make_tensor_value_info(name, *what) for name, what in shapes.items()]
    given_names.append(helper.make_tensor_value_info("i", kinds.FLOAT, [1]))
    node = helper.make_node("NonMaxSuppression", ["b", "s", "m", "i"], ["o"])
    graph = helper.make_graph([node], "g", given_names, [helper.make_tensor_value_info("o", kinds.INT64, [None, 3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for seed in range(10):
        random = np.random.default_rng(seed)
        start = random.integers(0, 8, (40, 2))
        boxes = np.c_[start, start + random.integers(1, 8, (40, 2))].astype(np.float32)
        scores = random.permutation(40).astype(np.float32)
        asked = {"b": boxes[None], "s": scores[None, None], "m": np.array([9]), "i": np.array([0.5], np.float32)}
        assert kept(boxes, scores) == session.run(None, asked)[0][:, 2].tolist()


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({"kind": "soft"}, "kind 'soft' is not supported"),
        ({"overlap": 1.5}, "must lie in"),
        ({"overlap": float("nan")}, "must lie in"),
        ({"most": 0}, "keeps 1 to 10,000 boxes; got 0"),
        ({"offset": 2}, "is 0 or 1; got 2"),
    ],
)
def test_rules_without_meaning_are_refused(rule, sentence):
    with pytest.raises(ManifestError, match=sentence):
        kept([], [], **rule)


def test_scores_and_classes_that_do_not_fit_the_boxes_are_refused():
    with pytest.raises(ModelError, match="The score of box 1 is NaN"):
        kept(HALF, [1, np.nan])
    with pytest.raises(ModelError, match="2 boxes, but scores of shape"):
        kept(HALF, [1])
    with pytest.raises(ModelError, match="2 boxes, but classes of shape"):
        kept(HALF, [1, 1], class_aware=True)
    with pytest.raises(ModelError, match="131,073 boxes for one image"):
        kept(np.zeros((131_073, 4)), np.zeros(131_073))


def prepared(*steps, **spec):
    spec.setdefault("shape", (None, 3, None, None))
    return build_prepare(Input(preprocess=steps, **spec), TensorSpec("x", (None,), "float32"))


def test_a_declared_letterbox_is_what_is_fed_and_what_is_undone():
    image = np.random.default_rng(3).integers(0, 256, (40, 80, 3), np.uint8)
    halved = {"op": "normalize", "scale": 0.5}
    prepare = prepared({"op": "letterbox", "size": (64, 64), "fill": 10}, halved, shape=(None, 3, 64, 64))
    frame = framing("letterbox", (40, 80), (64, 64))
    wanted = place_image(image, frame, 10, "bilinear", "pil")
    np.testing.assert_array_equal(prepare(image), wanted.transpose(2, 0, 1) * np.float32(0.5))
    assert prepare(image)[0, 0, 0] == 5
    assert prepare.framing((40, 80)) == frame
    corner = prepared({"op": "letterbox", "size": (64, 64), "fit": "top_left", "fill": 0})
    assert corner.framing((40, 80)) == framing("top_left", (40, 80), (64, 64))


def test_a_resize_is_a_stretch_and_no_step_leaves_the_image_where_it_is():
    assert prepared({"op": "resize", "size": (30, 30)}).framing((40, 80)) == framing("stretch", (40, 80), (30, 30))
    assert prepared({"op": "resize", "size": 20}).framing((40, 80)) == framing("stretch", (40, 80), (20, 40))
    assert prepared({"op": "normalize"}).framing((40, 80)) == framing("stretch", (40, 80), (40, 80))


def test_a_placement_that_cannot_be_undone_is_refused_only_where_it_is_asked_for():
    prepare = prepared({"op": "resize", "size": 32}, {"op": "center_crop", "size": (24, 24)})
    assert prepare(np.zeros((40, 80, 3), np.uint8)).shape == (3, 24, 24)
    with pytest.raises(ManifestError, match="back into the image after resize and then center_crop"):
        prepare.framing((40, 80))
    with pytest.raises(ManifestError, match="the input is no image"):
        prepared(modality="array", shape=(None, 4)).framing((4, 4))


def test_a_letterbox_that_no_library_makes_is_refused_when_the_model_is_opened():
    with pytest.raises(ManifestError, match="torchvision does not resize tensors by 'area'"):
        prepared({"op": "letterbox", "size": (64, 64), "method": "area", "library": "torchvision"})
    with pytest.raises(ValueError, match="a side must lie between 1 and 65536"):
        prepared({"op": "letterbox", "size": (0, 64)})


@pytest.mark.parametrize(
    ("fit", "rounding", "content"),
    [
        ("top_left", None, (342, 513)),
        ("top_left", "round", (342, 513)),
        ("top_left", "ceil", (343, 513)),
        ("letterbox", "floor", (342, 513)),
        ("letterbox", None, (342, 513)),
    ],
)
def test_a_manifest_may_say_how_sides_are_rounded(fit, rounding, content):
    assert framing(fit, (427, 640), (513, 513), rounding).content == content  # 342.27 rows
    assert framing(fit, (480, 640), (513, 513), "round").content == (385, 513)  # 384.75
    assert framing("top_left", (480, 640), (513, 513)).content == (384, 513)
    step = Letterbox(op="letterbox", size=(513, 513), fit=fit, rounding=rounding)
    assert declared_framing([step], (427, 640)).content == content


def test_no_rounding_reaches_beyond_the_canvas():
    for rounding in ("round", "floor", "ceil"):
        for side in range(8, 700, 7):
            assert max(framing("top_left", (side, 640), (513, 513), rounding).content) <= 513
