"""Answers are drawn on what was given: boxes and tags in *Run*, *Compare* and *Live*, whatever classes are called."""

import io
import json

import pytest

pytest.importorskip("playwright")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
import numpy as np
from browsing import Visitor, at_home, look_at, serving
from PIL import Image
from playwright.sync_api import expect

from zoolens.faces.ui.test_live_outputs import detector, tagger

pytestmark = pytest.mark.slow

PATIENCE = 60_000
EVIL = "<img src=x onerror=alert(1)>"


def write_photos(folder):
    """Three images of 16 × 8 with a thing at left 2, top 2, width 8, height 4, and a dog as large as the image."""
    folder.mkdir()
    for number in range(3):
        Image.fromarray(np.full((8, 16, 3), 80 * number, np.uint8)).save(folder / f"{number}.png")
    boxes = [[2, 2, 8, 4], [0, 0, 16, 8]]
    data = {
        "images": [{"id": n, "file_name": f"{n}.png", "width": 16, "height": 8} for n in range(3)],
        "categories": [{"id": 1, "name": EVIL}, {"id": 2, "name": "dog"}],
        "annotations": [
            {"id": 2 * n + k, "image_id": n, "category_id": 1 + k, "bbox": box, "area": box[2] * box[3], "iscrowd": 0}
            for n in range(3)
            for k, box in enumerate(boxes)
        ],
    }
    (folder / "boxes.json").write_text(json.dumps(data))
    return f"coco:{folder / 'boxes.json'}?images={folder}"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The address of an explorer over two detectors and two taggers, their runs by name, and the folder of all."""
    from zoolens.faces.ui.settings import Settings
    from zoolens.findings.measure.evaluate import evaluate

    folder = tmp_path_factory.mktemp("drawn")
    quick = {"runtimes": "onnxruntime", "batches": (), "cold": False, "trust": True}
    with at_home(folder / "home"):
        models = [detector(folder, *about) for about in (("a", [EVIL, "dog", "owl"]), ("b", ["dog", EVIL, "owl"]))]
        outcomes = evaluate(models, write_photos(folder / "photos"), **quick)
        tagged = folder / "words.conll"
        tagged.write_text(f"now O\nAnn B-PER\nin O\n{EVIL.replace(' ', '')} O\nParis B-LOC\n\nold O\nParis B-LOC\n")
        taggers = [tagger(folder), tagger(folder, "blind", -2.0)]
        outcomes += evaluate(taggers, f"tagged:{tagged}", **quick)
        assert not [error for outcome in outcomes for error in outcome.errors]
        runs = {outcome.run.ref.partition(":")[2].partition("@")[0]: outcome.run.id for outcome in outcomes}
        with serving(Settings(allowed=(folder,))) as url:
            yield url, runs, folder


@pytest.fixture
def visitor(chromium, drawn):
    made = Visitor(chromium, drawn[0])
    yield made
    made.check()
    made.close()


def test_boxes_are_drawn_on_the_inputs_of_a_run(visitor, drawn):
    page = visitor.visit(f"#/run/{drawn[1]['a']}?tab=inputs", expect="What is right")
    card = page.get_by_role("list", name="Inputs").get_by_role("listitem").first
    right, answer = card.get_by_role("figure").nth(0), card.get_by_role("figure").nth(1)
    picture = answer.get_by_role("img", name="2 boxes")
    expect(picture).to_be_visible(timeout=PATIENCE)
    expect(picture.locator(".outline")).to_have_count(2)
    expect(picture).to_contain_text("dog 0.40")
    expect(picture).to_contain_text("<img src=x onerror")  # as a text
    expect(right.get_by_role("img", name="2 boxes")).to_contain_text("dog")
    # The box lies where it should: from 2 of 16 pixels to 10 of 16.
    image, box = answer.locator("img").bounding_box(), picture.locator(".outline rect").last.bounding_box()
    assert (box["x"] - image["x"]) / image["width"] == pytest.approx(2 / 16, abs=0.03)
    assert box["width"] / image["width"] == pytest.approx(8 / 16, abs=0.03)
    expect(page.get_by_role("tab", name="Confusion")).to_have_count(0)
    expect(page.get_by_role("tab", name="Calibration")).to_have_count(0)
    page.get_by_role("tab", name="Classes").click()
    expect(page.get_by_role("table")).to_contain_text("class_ap", timeout=PATIENCE)
    expect(page.get_by_role("table")).to_contain_text(EVIL)


def test_a_comparison_shows_both_answers_and_the_lowest_agreement_first(visitor, drawn):
    _, runs, _ = drawn
    page = visitor.visit(f"#/compare?a={runs['a']}&b={runs['b']}&unfold=answers", expect="What is right")
    card = page.get_by_role("list", name="Answers of both runs").get_by_role("listitem").first
    expect(card.get_by_role("figure")).to_have_count(3, timeout=PATIENCE)
    expect(card).to_contain_text("Agreement of the two: 0.0 %")
    expect(page.get_by_role("tab", name="Confusion")).to_have_count(0)
    classes = page.get_by_role("group", name="Classes with the largest change")
    expect(classes).to_contain_text("Average precision of a class of A")
    page = visitor.visit(f"#/compare?a={runs['tagger']}&b={runs['blind']}&unfold=answers", expect="What is right")
    card = page.get_by_role("list", name="Answers of both runs").get_by_role("listitem").first
    # The text of which one model misses everything comes first.
    expect(card.locator("mark")).to_have_count(2, timeout=PATIENCE)
    expect(card.locator("mark").first).to_have_text("Paris LOC")
    page.get_by_label("Show").select_option("all")
    expect(page.get_by_role("list", name="Answers of both runs")).to_contain_text(EVIL.replace(" ", ""))


def test_boxes_and_tags_are_drawn_live_with_the_agreement_of_two_models(visitor, drawn):
    _, _, folder = drawn
    stream = io.BytesIO()
    Image.fromarray(np.zeros((8, 16, 3), np.uint8)).save(stream, "PNG")
    page = visitor.visit(f"#/live?with={folder}/a.yaml&with={folder}/b.yaml", expect="Waits for an image.")
    image = {"name": "a.png", "mimeType": "image/png", "buffer": stream.getvalue()}
    page.get_by_label("Image file").set_input_files(image)
    cards = page.get_by_role("article")
    for place in range(2):
        picture = cards.nth(place).get_by_role("img", name="2 boxes")
        expect(picture.locator(".outline")).to_have_count(2, timeout=PATIENCE)
    styles = [cards.nth(place).locator(".outline").last.get_attribute("class") for place in range(2)]
    assert styles[0] != styles[1]  # the best box is of another class
    agreement = page.get_by_role("region", name="Agreement")
    expect(agreement).to_contain_text("0.0 % (mean agreement of boxes", timeout=PATIENCE)
    both = "&".join(f"model={folder}/{name}.yaml" for name in ("tagger", "blind"))
    page = visitor.visit(f"#/live?input=text&{both}", expect="Waits for a text.")
    page.get_by_role("textbox", name="Text", exact=True).fill(f"Ann is in Paris {EVIL}")
    expect(page.get_by_role("article").first.locator("mark")).to_have_text(["Ann PER", "Paris LOC"], timeout=PATIENCE)
    expect(page.get_by_role("region", name="Agreement")).to_contain_text("66.7 %", timeout=PATIENCE)


def test_everybody_can_read_it(chromium, drawn):
    url, runs, folder = drawn
    for view in (
        f"#/run/{runs['a']}?tab=inputs",
        f"#/compare?a={runs['tagger']}&b={runs['blind']}&unfold=answers",
        f"#/live?input=text&model={folder}/tagger.yaml&text=Ann+is+in+Paris",
    ):
        look_at(chromium, url, view, "PER" if "live" in view else "What is right", thoroughly=True)
