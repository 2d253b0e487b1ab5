"""Every page as a picture, in two widths and two colours, against the pictures that somebody has looked at.

`make looks` compares, `make looks WRITE=1` keeps what the pages look like now: look at what changed (`git diff --stat`
names the pictures) before it is committed. Pictures are compared as an eye would, in parts of the page and at half the
size, so that another time of day or another rounding of a letter's edge is no change.
"""

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("playwright")
from browsing import SCHEMES, SCREENS, Visitor, expect_none
from made_home import VIEWS

pytestmark = pytest.mark.slow

KEPT = Path(__file__).parent / "references"
WRITES = os.environ.get("ZOOLENS_LOOKS") == "write"
TALLEST = 1800  # pixels of a page, from its top
HALF = 2
TILE = 16  # pixels of the smaller picture: about two lines of text
ALIKE = 0.45  # structural similarity, below which a tile looks otherwise
MOST_CHANGED = 0.04  # of the tiles
MOST_BYTES = 3_000_000  # of all pictures together
# A picture for each page: its list, and one thing that it shows.
PAGES = (
    "#/home", "#/models", "#/model/{model}?zoom=90", "#/runs", "#/run/{a}", "#/choose", "#/compare",
    "#/compare?a={a}&b={b}", "#/networks?a={model}&b={model}", "#/diverge", "#/diverge/{diverge}", "#/audit",
    "#/audit/{audit}", "#/traces", "#/traces/{trace}", "#/studies", "#/studies/{study}", "#/services",
    "#/services/{session}", "#/endpoints", "#/endpoints/{endpoint}", "#/fleet", "#/fleet?tab=grid", "#/jobs",
    "#/live?with=folder:live",
    "#/live?input=text&model=folder:sentiment", "#/reports", "#/reports/{report}", "#/folder", "#/api",
)  # fmt: skip
# Ids, moments and what is counted from now on differ from one run of the tests to the next.
STEADY = """() => {
  for (const time of document.querySelectorAll("time")) time.textContent = "2026-11-19 01:00";
  for (const code of document.querySelectorAll("code")) {
    if (/^[0-9a-f]{8,}$/.test(code.textContent)) code.textContent = "0".repeat(code.textContent.length);
  }
  for (const cell of document.querySelectorAll("td")) {  // of a machine: when it was seen, its load and its disk
    if (/^[\\d.]+ (s|min|h) ago$/.test(cell.textContent)) cell.textContent = "82.0 s ago";
    if (["Load", "Free disk"].includes(cell.dataset.label) && /\\d/.test(cell.textContent)) cell.textContent = "10.5";
  }
  // Jobs that were made in one second stand in any order.
  const jobs = [...document.querySelectorAll("section[aria-label=Jobs] > div")];
  jobs.sort((a, b) => a.textContent.localeCompare(b.textContent)).forEach((job) => job.parentNode.append(job));
}"""


def name_of(view, scheme, screen):
    words = "".join(sign if sign.isalnum() else "-" for sign in view.partition("#/")[2]).strip("-")
    return f"{words}-{screen}-{scheme}.webp"


@pytest.fixture(scope="module")
def window(chromium, whole):
    made = Visitor(chromium, whole[0])
    yield made
    made.close()


@pytest.mark.parametrize("view", PAGES)
def test_the_page_looks_as_it_was_seen(window, whole, tmp_path, view):
    names = whole[1]
    text = VIEWS.get(view)
    page = window.visit(view.format_map(names), text and text.format_map(names))
    expect_none(page.locator(".chart:not(:has(svg.marks))"))
    changed = []
    for screen, (width, height) in SCREENS.items():
        for scheme in SCHEMES:
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(400)  # charts are drawn anew for another width
            page.evaluate(STEADY)
            seen = picture_of(page, width)
            kept = KEPT / name_of(view, scheme, screen)
            if WRITES:
                KEPT.mkdir(exist_ok=True)
                seen.save(kept, quality=40, method=6)
            elif difference := difference_between(seen, kept):
                seen.save(tmp_path / kept.name, quality=90)
                changed.append(f"{kept.name}: {difference}; now it is {tmp_path / kept.name}")
    assert not changed, changed


def picture_of(page, width):
    """The page from its top, at half the size."""
    from io import BytesIO

    from PIL import Image

    height = min(TALLEST, page.evaluate("document.documentElement.scrollHeight"))
    shot = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": width, "height": height})
    whole = Image.open(BytesIO(shot)).convert("RGB")
    return whole.resize((whole.width // HALF, whole.height // HALF), Image.Resampling.LANCZOS)


def difference_between(seen, path):
    """What an eye would notice, as part of a sentence; empty where that is nothing."""
    from PIL import Image

    if not path.exists():
        return "nobody has looked at it yet"
    kept = Image.open(path).convert("RGB")
    if abs(kept.height - seen.height) > 0.1 * kept.height:
        return f"it is {HALF * seen.height} pixels high instead of {HALF * kept.height}"
    height = min(kept.height, seen.height)
    ours, theirs = (np.asarray(one, np.float64)[:height].mean(axis=2) for one in (seen, kept))
    share = float(np.mean(similarity(ours, theirs) < ALIKE))
    return f"{share:.1%} of it look otherwise" if share > MOST_CHANGED else ""


def similarity(one, other):
    """The structural similarity (Wang et al. 2004) of each tile of two grey pictures."""
    rows, columns = (size // TILE * TILE for size in one.shape)

    def tiles(grey):
        parts = grey[:rows, :columns].reshape(rows // TILE, TILE, columns // TILE, TILE)
        return parts.transpose(0, 2, 1, 3).reshape(rows // TILE, columns // TILE, -1)

    a, b = tiles(one), tiles(other)
    mean_a, mean_b = a.mean(axis=2), b.mean(axis=2)
    covariance = ((a - mean_a[..., None]) * (b - mean_b[..., None])).mean(axis=2)
    light, contrast = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    above = (2 * mean_a * mean_b + light) * (2 * covariance + contrast)
    return above / ((mean_a**2 + mean_b**2 + light) * (a.var(axis=2) + b.var(axis=2) + contrast))


def test_the_pictures_are_small_and_there_is_one_of_each_page():
    wanted = {name_of(view, scheme, screen) for view in PAGES for scheme in SCHEMES for screen in SCREENS}
    kept = {path.name: path.stat().st_size for path in KEPT.glob("*.webp")}
    assert set(kept) == wanted
    assert sum(kept.values()) < MOST_BYTES


def test_a_change_is_seen_and_a_shade_is_not():
    rng = np.random.default_rng(1)
    page = np.repeat(np.repeat(rng.uniform(0, 255, (20, 20)), 8, axis=0), 8, axis=1)
    assert (similarity(page, np.clip(page + 3, 0, 255)) > 0.95).all()
    moved = page.copy()
    moved[32:64, 32:96] = 255
    assert np.mean(similarity(page, moved) < ALIKE) > MOST_CHANGED
