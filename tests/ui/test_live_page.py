"""Drop in an image and see what several models say of it."""

import io

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

PATIENCE = 60_000


def demo_image(index):
    from PIL import Image

    from zoolens import open_dataset

    dataset = open_dataset("demo", limit=index + 1)
    sample = dataset.read(index)
    dataset.close()
    stream = io.BytesIO()
    Image.fromarray(sample.value[:, :, 0]).save(stream, "PNG")
    return stream.getvalue(), sample.value


def test_an_image_is_answered_by_several_models_side_by_side(visitor):
    from zoolens.ui.live import LiveModels

    content, pixels = demo_image(2)
    page = visitor.visit("#/live?with=demo:lenet-torch+in+litert&with=demo:lenet-int8", expect="Waits for an image.")
    page.get_by_label("Image file").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": content})
    with LiveModels() as live:
        expected = live.answer("demo:lenet-torch", "litert", pixels, 5)
    card = page.get_by_role("article", name="demo:lenet-torch in litert")
    best = expected.classes[0]
    certain = best.probability > 0.999  # then it does not read as if it were sure
    expect(card).to_contain_text("> 99.9 %" if certain else f"{100 * best.probability:.1f} %", timeout=PATIENCE)
    expect(card).to_contain_text(best.label or f"class {best.index}")
    expect(card).to_contain_text("28 × 28, grey")
    expect(page.get_by_role("article", name="demo:lenet-int8")).to_contain_text("this call took", timeout=PATIENCE)
    page.get_by_role("button", name="Remove demo:lenet-int8").click()
    expect(page.get_by_role("article")).to_have_count(1)
    assert "lenet-int8" not in page.url


def test_what_cannot_be_answered_is_said_on_its_card(visitor):
    page = visitor.visit("#/live?with=demo:nosuch&with=/etc/passwd", expect="Waits for an image.")
    page.get_by_role("button", name="Example 1").click()
    expect(page.get_by_role("article", name="demo:nosuch")).to_contain_text("There is no model named", timeout=PATIENCE)
    expect(page.get_by_role("article", name="/etc/passwd")).to_contain_text("A job may not read the model")
    visitor.problems = [one for one in visitor.problems if "40" not in one]  # the browser tells of the refusals


def test_everybody_can_read_it(look_everywhere):
    look_everywhere("#/live?with=demo:lenet-torch", expect="Waits for an image.")
