"""Sample rates changed as scipy and torchaudio do it; soxr is itself.

torchaudio's and soxr's values were computed by torchaudio 2.11.0 with torch 2.13.0, and by soxr 1.1.0 with librosa
0.11.0, from the same `tone()`:

    torchaudio.transforms.Resample(given, wanted)(torch.from_numpy(tone())).numpy()
    librosa.resample(tone(), orig_sr=given, target_sr=wanted)
"""

import math
import sys
import time

import numpy as np
import pytest

from zoolens.base.errors import DatasetError, ManifestError, MissingDependency
from zoolens.inventory.preprocess.sound import resampling
from zoolens.inventory.preprocess.sound.resampling import LIBRARIES, resample

PLACES = [0, 1, 777, -2, -1]
# (given, wanted): length, the samples at PLACES, mean magnitude
TORCHAUDIO = {
    (16000, 8000): (8000, [0.1561106, 0.2903863, -0.2568391, 0.3314479, 0.04658415], 0.32874763),
    (8000, 16000): (32000, [0.199113, 0.241555, -0.5868677, -0.2867906, -0.1468764], 0.33143064),
    (44100, 16000): (5805, [0.1461362, 0.3209551, 0.01697599, -0.1739733, 0.2068589], 0.28737277),
    (16000, 11025): (11025, [0.1718218, 0.2658849, 0.2862197, 0.4286274, -0.24887], 0.33090732),
}
SOXR = {
    (16000, 8000): (8000, [0.1545406, 0.2926131, -0.2567857, 0.3592569, 0.03039009], 0.33109486),
    (8000, 16000): (32000, [0.1961116, 0.2430936, -0.5864406, -0.2837317, -0.144539], 0.33140054),
    (44100, 16000): (5805, [0.1400929, 0.3230195, 0.01706859, -0.1251688, 0.1624064], 0.29083669),
    (16000, 11025): (11025, [0.1626595, 0.2688451, 0.2861266, 0.4243364, -0.2452861], 0.33092374),
}


def tone():
    n = np.arange(16000)
    return (0.5 * np.sin(2 * np.pi * (200 + 0.1 * n) * n / 16000) + 0.2 * np.cos(n * n / 7e4)).astype(np.float32)


@pytest.mark.parametrize(("given", "wanted"), [*TORCHAUDIO, (16000, 16001), (22050, 48000)])
@pytest.mark.parametrize("length", [16000, 1, 7])
def test_scipy(given, wanted, length):
    signal = pytest.importorskip("scipy.signal")
    divisor = math.gcd(given, wanted)
    theirs = signal.resample_poly(tone()[:length].astype(np.float64), wanted // divisor, given // divisor)
    ours = resample(tone()[:length], given, wanted, "scipy")
    assert ours.dtype == np.float32
    assert len(ours) == len(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=6e-8)  # the rounding to float32


@pytest.mark.parametrize(("given", "wanted"), TORCHAUDIO)
def test_torchaudio(given, wanted):
    length, values, mean = TORCHAUDIO[given, wanted]
    ours = resample(tone(), given, wanted, "torchaudio")
    assert len(ours) == length
    np.testing.assert_allclose(ours[PLACES], values, rtol=0, atol=1e-6)
    assert np.abs(ours).mean() == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize(("given", "wanted"), SOXR)
def test_soxr(given, wanted):
    pytest.importorskip("soxr")
    length, values, mean = SOXR[given, wanted]
    ours = resample(tone(), given, wanted, "soxr")
    assert len(ours) == length
    # other processors get other instructions of its filters
    np.testing.assert_allclose(ours[PLACES], values, rtol=0, atol=1e-5)
    assert np.abs(ours).mean() == pytest.approx(mean, abs=1e-5)


def test_soxr_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "soxr", None)
    with pytest.raises(MissingDependency, match=r"Resampling as soxr needs soxr.*zoolens\[sound\]"):
        resample(tone(), 16000, 8000, "soxr")


def test_the_libraries_really_differ():
    scipy, torchaudio = (resample(tone(), 44100, 16000, library) for library in ("scipy", "torchaudio"))
    assert np.abs(scipy - torchaudio).max() > 0.01


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_same_rate_changes_nothing(library):
    samples = tone()
    assert resample(samples, 16000, 16000, library) is samples
    assert len(resample(samples[:0], 8000, 16000, library)) == 0


def test_rates_without_a_common_divisor_stay_cheap():
    """A table of all outputs and inputs of one period would take 5 GB here."""
    begin = time.process_time()
    assert len(resample(tone(), 44101, 16000, "torchaudio")) == math.ceil(16000 * 16000 / 44101)
    assert time.process_time() - begin < 10


def test_what_cannot_be_is_refused(monkeypatch):
    with pytest.raises(ManifestError, match=r"no resampling library 'sox'.*scipy, torchaudio, soxr"):
        resample(tone(), 16000, 8000, "sox")
    for rates in ((0, 8000), (8000, -1), (10**9, 8000)):
        with pytest.raises(ManifestError, match="Sample rates must be 1 to 768,000"):
            resample(tone(), *rates, "scipy")
    monkeypatch.setattr(resampling, "MAX_SAMPLES", 20_000)
    with pytest.raises(DatasetError, match="the sound has 32,000 samples, more than 20,000"):
        resample(tone(), 8000, 16000, "scipy")
