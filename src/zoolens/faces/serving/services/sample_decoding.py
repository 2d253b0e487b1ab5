"""From what clients of a service send to samples as datasets give them: images, pixels, texts and sounds."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import Tensor, TensorMetadata
from zoolens.inventory.datasets.decoders.decoder import load_decoder
from zoolens.inventory.datasets.images import decode_image
from zoolens.inventory.datasets.sound.decoding import decode_sound
from zoolens.inventory.datasets.sound.waveform import to_record
from zoolens.inventory.datasets.text_dataset import TextPair, Value, Words
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_steps import Resize
from zoolens.inventory.tasks.task import Task

Array = NDArray[Any]
Decode = Callable[[Tensor], list[Array]]

IMAGE: Final = "image"  # the name of the input of a service that takes images
TEXT: Final = "text"
SOUND: Final = "sound"
# What clients may send, by the modality that a model must have for it.
MODALITY: Final = {"image": "image", "pixels": "image", "text": "text", "sound": "sound"}
_SAMPLE: Final = (375, 500)  # a picture as photographs on the web are, for timing how long one takes to prepare
_SENTENCE: Final = "The quick brown fox jumps over the lazy dog near the river bank."


def sample_metadata(sent: str, spec: Input) -> TensorMetadata:
    """The one input of a service whose clients send samples."""
    if sent == "pixels":
        return TensorMetadata(IMAGE, "UINT8", (-1, -1, -1, -1))
    name = {"image": IMAGE, "text": TEXT, "sound": SOUND}[sent]
    return TensorMetadata(name, "BYTES", (-1, _texts_of(spec) if sent == "text" else 1))


def sample_decoder(sent: str, spec: Input, task: Task) -> Decode:
    """Decodes what clients send for a model with this input. What cannot be decoded is a ServingError."""
    if sent == "pixels":
        return list
    if sent == "text":
        count, words = _texts_of(spec), task.truth == "tags"
        return lambda texts: [_text_value(row, words=words) for row in texts.reshape(-1, count).tolist()]
    decode = image_decoder(spec) if sent == "image" else _decoded_sound
    return lambda elements: [decode(element) for element in elements.reshape(-1)]


def image_decoder(spec: Input) -> Callable[[Any], Array]:
    """Decodes one encoded image as the manifest declares."""
    library = load_decoder(spec.decoder)

    def decoded(image: Any) -> Array:
        if not isinstance(image, bytes):
            raise ServingError(Refusal.INVALID, f"Input '{IMAGE}' holds encoded images, such as the bytes of a JPEG.")
        try:
            return decode_image(image, f"An element of '{IMAGE}'", decode=library)
        except DatasetError as error:
            raise ServingError(Refusal.INVALID, str(error)) from error

    return decoded


def _decoded_sound(content: Any) -> Array:
    if not isinstance(content, bytes):
        raise ServingError(Refusal.INVALID, f"Input '{SOUND}' holds encoded sounds, such as the bytes of a WAV file.")
    try:
        return to_record(decode_sound(content, f"An element of '{SOUND}'"))
    except DatasetError as error:
        raise ServingError(Refusal.INVALID, str(error)) from error


def _texts_of(spec: Input) -> int:
    """How many texts one input has: two where the model takes pairs, such as a question and its context."""
    return 2 if spec.tokenizer is not None and spec.tokenizer.pair is not None else 1


def _text_value(texts: Sequence[Any], *, words: bool) -> Array:
    """One text, a pair, or words, which white space divides."""
    known = [_text(text) for text in texts]
    value: Value = known[0] if len(known) == 1 else TextPair(*known)
    if words and len(known) == 1:
        value = Words(tuple(known[0].split()))
        if not value.parts:
            raise ServingError(Refusal.INVALID, f"An element of '{TEXT}' has no words.")
    held = np.empty((), object)
    held[()] = value
    return held


def _text(text: Any) -> str:
    try:
        return text if isinstance(text, str) else bytes(text).decode()
    except (TypeError, UnicodeDecodeError) as error:
        raise ServingError(Refusal.INVALID, f"Input '{TEXT}' holds texts in UTF-8: {error}.") from error


# --- made-up samples


def made_up_picture(spec: Input) -> NDArray[np.uint8]:
    """A picture of a usual size, or of the size that a model without a resizing step takes."""
    height, width = _SAMPLE
    if not any(isinstance(step, Resize) for step in spec.preprocess) and "H" in spec.layout:
        extents = dict(zip(spec.layout, spec.shape, strict=True))
        height, width = extents["H"] or height, extents["W"] or width
    coarse = np.random.default_rng(0).integers(0, 256, (24, 32, 3)).astype(np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height)))


def made_up_sample(sent: str, spec: Input) -> Tensor:
    """One input as a client might send it, to time how long it takes to prepare."""
    if sent in ("image", "pixels"):
        picture = made_up_picture(spec)
        return picture[np.newaxis] if sent == "pixels" else np.array([[_as_jpeg(picture)]], object)
    if sent == "text":
        return np.array([[_SENTENCE.encode()] * _texts_of(spec)], object)
    assert spec.sound is not None  # the schema sees to it
    return np.array([[_as_wav(spec.sound.rate)]], object)


def _as_jpeg(picture: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def _as_wav(rate: int) -> bytes:
    """A second of noise."""
    samples = np.random.default_rng(0).integers(-1000, 1000, rate).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return buffer.getvalue()
