"""Drop in an image, or type some texts, and see what several models say of them."""

import io
import json
import re
from urllib.parse import quote

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

# Every view is opened in the quick suite by test_hostile_content.py and test_every_view.py; what a person does on
# this page is tried by `make test-ui`.
pytestmark = pytest.mark.slow

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
    from zoolens.faces.ui.live import LiveModels

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
    entry = page.get_by_role("region", name="Image")
    expect(entry).to_contain_text("a.png")
    page.get_by_role("button", name="Example 2").click()
    expect(entry).to_contain_text("Example 2")
    expect(entry).not_to_contain_text("a.png")
    page.get_by_role("button", name="Remove demo:lenet-int8").click()
    expect(page.get_by_role("article")).to_have_count(1)
    assert "lenet-int8" not in page.url


def test_any_picture_is_pasted_for_any_model_and_how_it_was_resized_is_said(visitor):
    from PIL import Image

    stream = io.BytesIO()
    Image.new("RGB", (90, 60), (200, 30, 30)).save(stream, "PNG")
    page = visitor.visit("#/live?with=demo:lenet-torch&with=demo:lenet-int8", expect="Waits for an image.")
    paste = """bytes => {
        const pasted = new DataTransfer();
        pasted.items.add(new File([new Uint8Array(bytes)], "x.png", {type: "image/png"}));
        window.dispatchEvent(new ClipboardEvent("paste", {clipboardData: pasted, bubbles: true, cancelable: true}));
    }"""
    page.evaluate(paste, list(stream.getvalue()))
    expect(page.get_by_role("region", name="Image")).to_contain_text("pasted image")
    for card in page.get_by_role("article").all():
        expect(card).to_contain_text("90 × 60, colour, resized", timeout=PATIENCE)
        expect(card).to_contain_text("28 × 28")
    expect(page.get_by_text("One call each took")).to_be_visible()
    page.get_by_role("link", name="Evaluate these on a dataset").click()
    expect(page.get_by_role("textbox", name="Models")).to_have_value("demo:lenet-torch demo:lenet-int8")


def test_a_camera_that_is_not_there_is_said(visitor):
    page = visitor.visit("#/live?with=demo:lenet-torch", expect="Waits for an image.")
    page.get_by_role("button", name="Use the camera").click()
    expect(page.get_by_role("alert")).to_contain_text("The camera cannot be used")


def test_a_file_that_is_too_large_or_cannot_be_read_is_refused_by_the_page(visitor):
    page = visitor.visit("#/live?with=demo:lenet-torch", expect="Waits for an image.")
    choose = """(field, [name, bytes]) => {
        const file = new File([new Uint8Array(bytes)], name);
        if (!bytes) file.arrayBuffer = () => Promise.reject(new Error("a folder"));
        const chosen = new DataTransfer();
        chosen.items.add(file);
        field.files = chosen.files;
        field.dispatchEvent(new Event("change", {bubbles: true}));
    }"""
    for name, size, sentence in (
        ("large.png", (16 << 20) + 1, "large.png has 16,777,217 bytes, more than the 16,777,216"),
        ("folder", 0, "folder cannot be read"),
    ):
        page.get_by_label("Image file").evaluate(choose, [name, size])
        expect(page.get_by_role("alert")).to_contain_text(sentence)
    expect(page.get_by_role("article")).to_contain_text("Waits for an image.")


def test_what_cannot_be_answered_is_said_on_its_card(visitor):
    page = visitor.visit("#/live?with=demo:nosuch&with=/etc/passwd", expect="Waits for an image.")
    page.get_by_role("button", name="Example 1").click()
    expect(page.get_by_role("article", name="demo:nosuch")).to_contain_text("There is no model named", timeout=PATIENCE)
    expect(page.get_by_role("article", name="/etc/passwd")).to_contain_text("A job may not read the model")
    visitor.problems = [one for one in visitor.problems if "40" not in one]  # the browser tells of the refusals


def test_texts_are_answered_by_several_models_side_by_side(visitor, explored_home):
    pytest.importorskip("tokenizers")
    judge, vectors = (quote(str(explored_home / "texts" / f"{name}.yaml")) for name in ("sentiment", "vectors"))
    page = visitor.visit(
        f"#/live?input=text&model={judge}+in+onnxruntime&model={vectors}&model=demo:lenet-int8",
        expect="Waits for a text.",
    )
    page.get_by_role("textbox", name="Text", exact=True).fill("A GOOD film <script>alert(1)</script> \u202e")
    cards = page.get_by_role("article")
    expect(cards.nth(0)).to_contain_text("positive73.1 %", timeout=PATIENCE)
    expect(cards.nth(0)).to_contain_text("Cut: the model reads 8 tokens and no more")
    expect(cards.nth(0)).to_contain_text("unknown to the tokenizer")
    expect(cards.nth(1)).to_contain_text("4 numbers, length of the vector 1", timeout=PATIENCE)
    expect(cards.nth(2)).to_contain_text("demo:lenet-int8 takes an image, not a text.", timeout=PATIENCE)
    page.get_by_role("button", name="Add a text").click()
    page.get_by_role("textbox", name="Text 1").fill("boat")
    page.get_by_role("textbox", name="Text 2").fill("ship")
    table = cards.nth(1).get_by_role("table", name="Similarity of the texts")
    expect(table).to_contain_text("Text 20.99", timeout=PATIENCE)
    page.get_by_role("textbox", name="Text 1").fill("")  # the other one keeps its number
    # The heading of the card is the model's path, which has "texts" in it.
    expect(cards.nth(0).get_by_role("heading", name=re.compile("^Text"))).to_have_text(["Text 2"], timeout=PATIENCE)
    cards.nth(0).get_by_role("region", name="Text 2").get_by_text("3 of at most 8 tokens").click()
    expect(cards.nth(0).get_by_text("ship", exact=True)).to_be_visible()
    assert page.url.endswith("&text=ship")
    visitor.problems = [one for one in visitor.problems if "40" not in one]  # the browser tells of the refusals


def test_a_text_of_ten_megabytes_is_refused_by_the_page_and_by_the_server(visitor, explored_home, explorer):
    judge = quote(str(explored_home / "texts" / "sentiment.yaml"))
    page = visitor.visit(f"#/live?input=text&model={judge}", expect="Waits for a text.")
    page.get_by_role("textbox", name="Text").evaluate(
        "box => (box.value = 'x'.repeat(10 << 20), box.dispatchEvent(new Event('input', {bubbles: true})))"
    )
    expect(page.get_by_role("alert")).to_contain_text("A text has 10,485,760 characters, more than the 100,000")
    expect(page.get_by_role("textbox", name="Text")).to_have_value("")
    for length, sentence in ((2 << 20, "A text has 2,097,152 bytes"), (10 << 20, "may have at most 4,194,304 bytes")):
        body = json.dumps(["x" * length])
        answer = page.request.post(f"{explorer}api/v1/live/text?model={judge}", data=body)
        assert answer.status in (400, 413)
        assert sentence in answer.json()["error"]


def test_everybody_can_read_it(look_everywhere, explored_home):
    look_everywhere("#/live?with=demo:lenet-torch", expect="Waits for an image.")
    judge = quote(str(explored_home / "texts" / "sentiment.yaml"))
    look_everywhere(f"#/live?input=text&model={judge}&text=good&text=bad", expect="positive")
