"""Two data pipelines beside each other: what is named of each way in which they may differ."""

import numpy as np
import pytest

from zoolens.base.verdicts import Outcome
from zoolens.training.pairs.data.recording import record
from zoolens.training.pairs.data.stream_comparison import compare_streams, stream_data, stream_lines
from zoolens.training.pairs.sides.network_sides import InputShape

SHAPE = [InputShape((3, 6, 6))]
GENERATOR = np.random.default_rng(0)
IMAGES = GENERATOR.random((44, 3, 6, 6)).astype(np.float32)
LABELS = GENERATOR.integers(0, 4, 44)
MEAN, DEVIATION = (np.array(values, np.float32)[:, None, None] for values in ((0.5, 0.4, 0.3), (0.2, 0.25, 0.3)))


def stream(images=IMAGES, labels=LABELS, size=8, *, most=None, changed=None):
    """A function that makes a generator of batches; `changed`: what augmentation does to the images of a batch."""

    def made():
        for start in range(0, len(images), size)[:most]:
            rows = slice(start, start + size)
            yield (images[rows] if changed is None else changed(images[rows])), labels[rows]

    return made


def compared(a, b, inputs=SHAPE):
    with record(a, inputs, epochs=2) as ours, record(b, inputs, epochs=2) as theirs:
        return compare_streams(ours, theirs)


def told(found):
    return [finding.text for finding in found.findings if finding.different]


def turned_at_random():
    drawn = np.random.default_rng(1)
    return lambda images: np.where(drawn.random((len(images), 1, 1, 1)) < 0.5, images[..., ::-1], images)


def jittered_at_random(seed):
    drawn = np.random.default_rng(seed)
    return lambda images: (images + 0.3 * drawn.standard_normal(images.shape)).astype(np.float32)


def test_equal_streams_are_the_same_with_the_number_of_batches():
    found = compared(stream(), stream())
    assert found.verdict.outcome is Outcome.SAME
    assert (found.first, found.findings) == (None, ())
    assert "Both streams are the same: 6 batches of 44 samples" in "\n".join(stream_lines(found, ""))
    assert stream_data(found)["outcome"] == "same"


ORDER = GENERATOR.permutation(44)
ONE_HOT = np.eye(4, dtype=np.float32)[LABELS]


@pytest.mark.parametrize(
    ("b", "first", "words"),
    [
        (stream(255 * IMAGES), 1, "B = A × 255: 0 to 255 in B for 0 to 1 in A"),
        (stream((255 * IMAGES).round().astype(np.uint8)), 1, "B = A × 255: 0 to 255 in B for 0 to 1 in A, up to"),
        (stream((IMAGES - MEAN) / DEVIATION), 1, "B = (A − (0.5, 0.4, 0.3)) / (0.2, 0.25, 0.3)"),
        (stream(2 * IMAGES - 1), 1, "B = (A − 0.5) / 0.5"),
        (stream(IMAGES[:, ::-1]), 1, "the channels of B are those of A in the order 2, 1, 0 (RGB and BGR)"),
        (stream(IMAGES[:, ::-1] * 255), 1, "(RGB and BGR) and B = A × 255"),
        (stream(IMAGES.transpose(0, 1, 3, 2)), 1, "height and width are exchanged"),
        (stream(labels=LABELS + 1), 1, "the classes of B are those of A +1"),
        (stream(labels=np.roll(LABELS, 1)), 1, "the targets of B belong to the sample before theirs"),
        (stream(labels=np.array([2, 0, 3, 1])[LABELS]), 1, "classes are numbered otherwise in B: 0 is 2, 1 is 0"),
        (stream(labels=0.9 * ONE_HOT + 0.025), 1, "labels are smoothed by 0 in A and by 0.1 in B"),
        (stream(most=5), 6, "B drops the last batch of an epoch, which has 4 samples"),
        (stream(size=11), 1, "batches have 8 samples in A and 11 in B"),
        (stream(np.concatenate([IMAGES, IMAGES[:1]]), np.append(LABELS, LABELS[0])), 6, "45 samples in 6 batches in B"),
        (stream(IMAGES[ORDER], LABELS[ORDER]), 1, "the same samples come in another order"),
        (stream(changed=turned_at_random()), 1, "B alone changes its samples from epoch to epoch"),
    ],
)  # fmt: skip
def test_what_differs_is_named_with_the_first_batch(b, first, words):
    found = compared(stream(), b)
    assert found.verdict.outcome is Outcome.DIFFERENT
    assert found.first == first
    assert words in "; ".join(told(found))


def test_order_and_scale_together_are_told_apart():
    found = compared(stream(), stream(255 * IMAGES[ORDER], LABELS[ORDER]))
    assert told(found) == ["the same samples come in another order", "B = A × 255: 0 to 255 in B for 0 to 1 in A"]


def test_a_batch_that_comes_twice():
    def again():
        batches = list(stream()())
        yield from [*batches, batches[-1]]

    assert told(compared(stream(), again)) == ["B gives its last batch twice"]


def test_values_that_are_normalised_already():
    normal = ((IMAGES - IMAGES.mean()) / IMAGES.std()).astype(np.float32)
    found = compared(stream(normal), stream((normal - MEAN) / DEVIATION))
    assert "normalised twice?" in told(found)[0]


def test_other_forms_of_the_same_are_no_difference():
    found = compared(stream(), stream(IMAGES.transpose(0, 2, 3, 1), ONE_HOT))
    assert found.verdict.outcome is Outcome.SAME
    assert [finding.kind for finding in found.findings] == ["form", "targets"]


def test_what_both_draw_at_random_is_not_known():
    found = compared(stream(changed=jittered_at_random(1)), stream(changed=jittered_at_random(2)))
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert "both sides change at random" in "\n".join(stream_lines(found, ""))


def test_arrays_are_compared_before_they_are_shuffled():
    found = compared((IMAGES, LABELS), (IMAGES[:-1], LABELS[:-1]))
    assert told(found) == ["an epoch has 44 samples in 2 batches in A and 43 samples in 2 batches in B"]


def test_held_out_parts_are_compared():
    found = compared((list(stream()()), list(stream()())), (list(stream()()), list(stream(IMAGES / 255)())))
    assert told(found) == ["held out: B = A × 0.003922: 0 to 1 in B for 0 to 255 in A"]
    assert found.first is None


def test_targets_that_are_numbers():
    inputs = [InputShape((6,))]
    rows, numbers = IMAGES.reshape(-1, 6)[:40], GENERATOR.standard_normal(40).astype(np.float32)
    found = compared(stream(rows, numbers), stream(rows, (3 * numbers + 1).astype(np.float32)), inputs)
    assert told(found) == ["targets of B are those of A × 3 + 1"]
