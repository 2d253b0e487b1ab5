"""One input for a person's eyes: a small picture of an image, the start of a text, else the shape and first numbers."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoolens.inventory.datasets.sound.waveform import RECORD, Waveform, from_record
from zoolens.inventory.datasets.text_dataset import TextPair, Words

SIDE: Final = 196  # of a picture, in pixels
LARGE_SIDE: Final = 320  # of a picture on which boxes and their names are to be read
_BREAKS: Final = re.compile(r"\s*[\r\n]\s*")
LETTERS: Final = 600  # of a text
LETTERS_OF_PAIR: Final = 4_000  # of each text of a pair, with single spaces: an answer may lie anywhere in it
LETTERS_OF_WHOLE: Final = 16_000
WORDS: Final = 400  # of a text that is split into words
BARS: Final = 200  # of a waveform
NUMBERS: Final = 8  # that are written out
_CHANNELS: Final = (1, 3)
_OVERLAY: Final = 150  # opacity of a map of classes, of 255
# Seven colours of Okabe and Ito, which people with a weak sense of colour tell apart, and a dark red. They are those of
# explorer/src/style.css.
PALETTE: Final = (
    (0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (213, 94, 0), (240, 228, 66),
    (136, 34, 85),
)  # fmt: skip
STYLES: Final = 2 * len(PALETTE)  # the second half of the classes is striped, or dashed
_STRIPE: Final = 4  # pixels
_SMALLEST: Final = 4  # pixels of a side of an array of numbers that is drawn


@dataclass(frozen=True)
class Picture:
    """A preview of one input."""

    words: str  # what the input is, and how numbers that are not pixels were drawn
    png: bytes | None = None  # None where the input is not an image
    size: tuple[int, int] = (0, 0)  # width and height of the image that the picture shows, in its own pixels
    tokens: tuple[str, ...] = ()  # of a text that its dataset splits into words, at most WORDS of them
    more_tokens: int = 0  # how many there are beside those
    texts: tuple[str, ...] = ()  # of a pair of texts, the beginning of both
    whole: str = ""  # of one text: all of it; empty where it has more than LETTERS_OF_WHOLE
    wave: tuple[float, ...] = ()  # of a sound: the largest sample, without its sign, of each of BARS equal stretches
    seconds: float = 0.0  # of a sound


def picture_of(value: NDArray[Any]) -> Picture:
    """Pixels are drawn as they are. Other numbers in the shape of an image are drawn from their smallest (black) to
    their largest (white), and the words say so."""
    if value.dtype == object:
        return _text(value.item())
    if value.dtype.names == RECORD:
        return _sound(from_record(value))
    if is_image(value):
        width, height = value.shape[1], value.shape[0]
        colour = "grey" if value.shape[2] == 1 else "colour"
        return Picture(f"{width} × {height}, {colour}", png(value, LARGE_SIDE), (width, height))
    if (drawn := _as_image(value)) is not None:
        low, high = float(value.min()), float(value.max())
        return Picture(f"{_shape(value)}, drawn from {low:.3g} (black) to {high:.3g} (white)", png(drawn))
    return Picture(described(value))


def _text(value: object) -> Picture:
    if isinstance(value, Words):
        return Picture(excerpt(str(value)), tokens=value.parts[:WORDS], more_tokens=max(0, len(value.parts) - WORDS))
    if isinstance(value, TextPair):
        return Picture(
            excerpt(str(value)), texts=tuple(" ".join(text.split())[:LETTERS_OF_PAIR] for text in value.parts)
        )
    text = str(value)
    return Picture(excerpt(text), whole=text if isinstance(value, str) and len(text) <= LETTERS_OF_WHOLE else "")


def _sound(waveform: Waveform) -> Picture:
    samples = np.abs(waveform.samples).max(axis=1, initial=0)
    parts = np.array_split(samples, min(BARS, len(samples))) if len(samples) else []
    channels = waveform.samples.shape[1]
    said = f"{waveform.seconds:.2f} s at {waveform.rate:,} Hz, {channels} {'channels' if channels > 1 else 'channel'}"
    wave = tuple(round(float(np.nan_to_num(part.max())), 4) for part in parts)
    return Picture(said, wave=wave, seconds=waveform.seconds)


def excerpt(text: str) -> str:
    """The start of a text that may be as long as it likes, in one line."""
    start = _BREAKS.sub(" ", text[:LETTERS])
    return start if len(text) <= LETTERS else f"{start}…"


def is_image(value: NDArray[Any]) -> bool:
    """Whether these are pixels as datasets give them: uint8, height × width × 1 or 3."""
    if value.dtype != np.uint8 or value.ndim != 3:
        return False
    return value.shape[2] in _CHANNELS and bool(value.size)


def png(value: NDArray[np.uint8], side: int = SIDE) -> bytes:
    """A picture of at most `side` pixels a side; small ones are enlarged by whole steps, so that pixels stay pixels."""
    image = Image.fromarray(value[:, :, 0] if value.shape[2] == 1 else value)
    largest = max(image.size)
    if largest > side:
        image.thumbnail((side, side))
    elif SIDE // largest > 1:
        factor = SIDE // largest
        image = image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
    stream = io.BytesIO()
    image.save(stream, format="PNG", optimize=True)
    return stream.getvalue()


def overlay_png(classes: NDArray[Any]) -> bytes:
    """A map of classes as a half-transparent picture of at most LARGE_SIDE pixels a side; −1 is left transparent."""
    height, width = classes.shape
    step = max(1, -(-max(height, width) // LARGE_SIDE))
    small = np.asarray(classes[::step, ::step])
    shown = small >= 0
    colours = np.zeros((*small.shape, 4), np.uint8)
    colours[shown, :3] = np.array(PALETTE, np.uint8)[small[shown].astype(np.int64) % len(PALETTE)]
    colours[shown, 3] = _OVERLAY
    rows, columns = np.indices(small.shape)
    striped = shown & (small % STYLES >= len(PALETTE)) & ((rows + columns) // _STRIPE % 2 == 0)
    colours[striped, 3] = _OVERLAY // 3
    stream = io.BytesIO()
    Image.fromarray(colours, "RGBA").save(stream, format="PNG", optimize=True)
    return stream.getvalue()


def described(value: NDArray[Any]) -> str:
    """The shape of an array and its first numbers; of a record, each of its fields."""
    if value.dtype.names is not None:
        return "; ".join(f"{name}: {described(np.asarray(value[name]))}" for name in value.dtype.names)
    first = value.reshape(-1)[:NUMBERS].tolist()
    numbers = [f"{number:.4g}" if isinstance(number, float) else str(number) for number in first]
    if value.size > len(first):
        numbers.append("…")
    return f"{_shape(value)}: {', '.join(numbers)}"


def _shape(value: NDArray[Any]) -> str:
    size = " × ".join(map(str, value.shape)) or "1"
    return f"{size} of {value.dtype.name}"


def _as_image(value: NDArray[Any]) -> NDArray[np.uint8] | None:
    """Finite numbers with 1 or 3 channels at one end of their shape, and not at both, as pixels."""
    if value.dtype.names is not None or value.ndim != 3 or value.dtype.kind not in "fiu" or not value.size:
        return None
    first, last = value.shape[0] in _CHANNELS, value.shape[2] in _CHANNELS
    if first == last:
        return None
    pixels = (value if last else value.transpose(1, 2, 0)).astype(np.float64)
    if min(pixels.shape[:2]) < _SMALLEST or not np.isfinite(pixels).all():
        return None
    low, high = pixels.min(), pixels.max()
    scaled = (pixels - low) / (high - low) if high > low else np.zeros_like(pixels)
    return np.asarray(np.rint(255 * scaled), np.uint8)
