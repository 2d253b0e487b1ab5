"""Spectra, mel bands and cepstra as librosa, torchaudio and TensorFlow compute them.

TensorFlow is compared live. The values of librosa 0.11.0 and torchaudio 2.11.0 (with torch 2.13.0) were computed from
`tone()` by the expressions that stand beside them.
"""

import dataclasses

import numpy as np
import pytest

from zoolens.base.errors import DatasetError, ManifestError
from zoolens.inventory.preprocess.sound import spectrum as spectrum_module
from zoolens.inventory.preprocess.sound.cepstrum import Cepstrum, cepstrum
from zoolens.inventory.preprocess.sound.features import (
    LIBROSA_MFCC,
    MLPERF_TINY_KEYWORDS,
    TORCHAUDIO_MFCC,
    Features,
    features,
)
from zoolens.inventory.preprocess.sound.framing import frames, padded, window
from zoolens.inventory.preprocess.sound.levels import Log, levels
from zoolens.inventory.preprocess.sound.mel import MelBands, filters, to_hertz, to_mel
from zoolens.inventory.preprocess.sound.spectrum import Stft, spectrum
from zoolens.inventory.preprocess.sound.test_resampling import tone

RATE = 16000
DECIBELS = Log("decibel", floor=1e-10, top_db=80.0)
CENTRED = Stft(400, 160, 512, padding="reflect", centred_window=True)
# chain: shape, the first four coefficients of the frames 0, 10 and -1, mean magnitude
PINNED = {
    # librosa.feature.mfcc(y=tone(), sr=16000).T
    "librosa": (
        LIBROSA_MFCC,
        (32, 20),
        [
            [-173.8989, 141.6587, 54.96325, 45.29652],
            [-426.7976, 124.0014, -53.36751, -87.06995],
            [-137.3572, 1.375603, -81.81281, 13.18544],
        ],
        63.792103,
    ),
    # librosa.feature.mfcc(y=tone(), sr=16000, n_mfcc=13, lifter=22, n_mels=40, n_fft=512, win_length=400,
    #                      hop_length=160, htk=True, mel_norm=None, pad_mode="reflect").T
    "librosa-lifter": (
        Features(CENTRED, MelBands(40), DECIBELS, Cepstrum(13, lifter=22)),
        (101, 13),
        [
            [-52.45257, 421.8936, 168.0205, 119.5565],
            [-425.8271, 540.3091, 416.4745, 93.843],
            [-25.51739, -67.76864, -121.367, 62.79813],
        ],
        304.88943,
    ),
    # torchaudio.transforms.MFCC(16000)(torch.from_numpy(tone())).numpy().T
    "torchaudio": (
        TORCHAUDIO_MFCC,
        (81, 40),
        [
            [-130.7521, 149.4729, 20.526, -0.0820725],
            [-372.9685, 161.9746, 78.21799, -8.601881],
            [-115.9014, -43.24571, -40.37356, 5.497292],
        ],
        31.802132,
    ),
    # torchaudio.transforms.MFCC(16000, n_mfcc=13, log_mels=True, melkwargs=dict(n_fft=512, win_length=400,
    #     hop_length=160, n_mels=40, mel_scale="slaney", norm="slaney"))(torch.from_numpy(tone())).numpy().T
    "torchaudio-log": (
        Features(
            CENTRED, MelBands(40, scale="slaney", norm="slaney", library="torchaudio"), Log("natural", offset=1e-6),
            Cepstrum(13),
        ),
        (101, 13),
        [
            [-37.95184, 25.13765, 5.521869, 5.047749],
            [-65.76362, 27.0376, 18.08282, 7.528521],
            [-33.79075, 0.6698635, -3.55726, 1.319464],
        ],
        11.783864,
    ),
}  # fmt: skip
# Sums of the bands 0, 20 and 39 of 40, at the odd rate of 11,025 Hz, whose half torchaudio rounds down:
# librosa.filters.mel(sr=11025, n_fft=400, n_mels=40, htk=scale == "htk", norm=norm).sum(1)
# torchaudio.functional.melscale_fbanks(201, 0.0, 5512.0, 40, 11025, norm=norm, mel_scale=scale).sum(0)
BANDS = {
    ("librosa", "htk", "none"): [1.302882, 4.14215, 11.37441],
    ("torchaudio", "htk", "none"): [1.302915, 4.142127, 11.37413],
    ("librosa", "htk", "slaney"): [0.03312519, 0.0363043, 0.03624651],
    ("torchaudio", "htk", "slaney"): [0.03312733, 0.03630686, 0.03624982],
    ("librosa", "slaney", "none"): [2.297616, 3.493306, 12.49835],
    ("torchaudio", "slaney", "none"): [2.297714, 3.493855, 12.4979],
    ("librosa", "slaney", "slaney"): [0.03547777, 0.03605615, 0.03626524],
    ("torchaudio", "slaney", "slaney"): [0.03548046, 0.03606467, 0.03626837],
}


@pytest.mark.parametrize("case", PINNED)
def test_coefficients_of_librosa_and_torchaudio(case):
    chain, shape, values, mean = PINNED[case]
    ours = features(tone(), RATE, chain)
    assert ours.dtype == np.float32
    assert ours.shape == shape
    np.testing.assert_allclose(ours[[0, 10, -1], :4], values, rtol=2e-6, atol=2e-3)
    assert np.abs(ours).mean() == pytest.approx(mean, rel=1e-5)


@pytest.mark.parametrize("case", BANDS)
def test_mel_bands_of_librosa_and_torchaudio(case):
    library, scale, norm = case
    bank = filters(MelBands(40, scale=scale, norm=norm, library=library), 400, 11025)
    assert bank.shape == (201, 40)
    np.testing.assert_allclose(bank.sum(axis=0)[[0, 20, 39]], BANDS[case], rtol=2e-6)


class TestTensorFlow:
    """The steps of tf.signal that MLPerf Tiny's keyword spotting is made of."""

    @pytest.fixture(autouse=True)
    def _signal(self):
        self.tf = pytest.importorskip("tensorflow")
        self.signal = self.tf.signal

    @pytest.mark.parametrize("length", [480, 400, 64])
    def test_windows(self, length):
        for name, theirs in (("hann", self.signal.hann_window), ("hamming", self.signal.hamming_window)):
            np.testing.assert_allclose(window(name, length), theirs(length), atol=2e-6)
            np.testing.assert_allclose(window(f"{name}_symmetric", length), theirs(length, periodic=False), atol=2e-6)

    def test_a_periodic_window_of_odd_length_is_symmetric_there(self):
        theirs = self.signal.hann_window(25).numpy()
        np.testing.assert_allclose(window("hann_symmetric", 25), theirs, atol=1e-6)
        assert np.abs(window("hann", 25) - theirs).max() > 0.05

    @pytest.mark.parametrize(("length", "hop", "points"), [(480, 320, None), (400, 160, 400), (640, 100, 1024)])
    def test_spectrum(self, length, hop, points):
        theirs = np.abs(self.signal.stft(tone(), length, hop, points).numpy())
        ours = spectrum(tone(), Stft(length, hop, points, kind="magnitude"))
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6 * theirs.max())
        power = spectrum(tone(), Stft(length, hop, points))
        np.testing.assert_allclose(power, theirs.astype(np.float64) ** 2, rtol=0, atol=2e-6 * theirs.max() ** 2)

    @pytest.mark.parametrize(("bands", "low", "high", "rate"), [(40, 20.0, 4000.0, 16000), (64, 125.0, 5512.5, 11025)])
    def test_mel_bands(self, bands, low, high, rate):
        theirs = self.signal.linear_to_mel_weight_matrix(bands, 257, rate, low, high).numpy()
        ours = filters(MelBands(bands, low, high, library="tensorflow"), 512, rate)
        np.testing.assert_allclose(ours, theirs, atol=2e-5)

    def test_cepstrum(self):
        log_mel = np.random.default_rng(1).normal(size=(5, 40)).astype(np.float32)
        theirs = self.signal.mfccs_from_log_mel_spectrograms(log_mel).numpy()
        np.testing.assert_allclose(cepstrum(log_mel, Cepstrum(40, "htk")), theirs, atol=1e-5)

    @pytest.mark.parametrize("kind", ["tone", "noise", "half silent"])
    def test_keyword_spotting(self, kind):
        samples = tone() if kind == "tone" else np.random.default_rng(2).normal(0, 0.2, RATE).astype(np.float32)
        if kind == "half silent":
            samples[8000:] = 0
        ours = features(samples, RATE, MLPERF_TINY_KEYWORDS)
        exact = self._keyword_features(samples.astype(np.float64))
        assert ours.shape == exact.shape == (49, 10)
        np.testing.assert_allclose(ours, exact, rtol=1e-6, atol=1e-5)
        # In float32 its FFT leaves noise in bands that a tone does not reach. The model's input has steps of 0.58.
        np.testing.assert_allclose(ours, self._keyword_features(samples), rtol=0, atol=0.03)

    def _keyword_features(self, samples):
        magnitudes = self.tf.abs(self.signal.stft(samples, 480, 320, None, self.signal.hann_window))
        weights = self.signal.linear_to_mel_weight_matrix(40, 257, RATE, 20.0, 4000.0, dtype=magnitudes.dtype)
        log_mel = self.tf.math.log(self.tf.tensordot(magnitudes, weights, 1) + 1e-6)
        return self.signal.mfccs_from_log_mel_spectrograms(log_mel)[..., :10].numpy()


def test_the_cosine_transforms_are_scipys():
    fft = pytest.importorskip("scipy.fft")
    log_mel = np.random.default_rng(1).normal(size=(3, 26))
    np.testing.assert_allclose(cepstrum(log_mel, Cepstrum(13)), fft.dct(log_mel, norm="ortho")[:, :13], atol=1e-12)
    np.testing.assert_allclose(cepstrum(log_mel, Cepstrum(26, "none")), fft.dct(log_mel), atol=1e-12)
    htk, ortho = (cepstrum(log_mel, Cepstrum(5, norm)) for norm in ("htk", "ortho"))
    np.testing.assert_allclose(htk / ortho, [[np.sqrt(2), 1, 1, 1, 1]] * 3)


@pytest.mark.parametrize("scale", ["htk", "slaney"])
def test_mel_scales_have_inverses(scale):
    hertz = np.array([0.0, 20, 999, 1000, 1001, 8000])
    np.testing.assert_allclose(to_hertz(to_mel(hertz, scale), scale), hertz, atol=1e-9)
    assert to_mel(np.array(1000.0), "slaney") == 15
    assert to_mel(np.array(1000.0), "htk") == pytest.approx(999.9855)


def test_levels():
    values = np.array([[0.0, 1e-12, 1.0, 100.0]])
    np.testing.assert_allclose(levels(values, Log("decibel", floor=1e-10)), [[-100, -100, 0, 20]])
    np.testing.assert_allclose(levels(values, DECIBELS), [[-60, -60, 0, 20]])
    np.testing.assert_allclose(levels(values, Log("natural", offset=1e-6)), np.log(values + 1e-6))
    np.testing.assert_allclose(levels(values, Log("decimal", floor=1e-3)), [[-3, -3, 0, 2]])


def test_paddings_and_frames():
    samples = np.arange(5.0)
    np.testing.assert_array_equal(padded(samples, 2, "reflect"), [2, 1, 0, 1, 2, 3, 4, 3, 2])
    np.testing.assert_array_equal(padded(samples, 1, "constant"), [0, 0, 1, 2, 3, 4, 0])
    np.testing.assert_array_equal(padded(samples, 2, "none"), samples)
    np.testing.assert_array_equal(frames(samples, 2, 2), [[0, 1], [2, 3]])


def test_long_sounds_are_transformed_in_parts(monkeypatch):
    whole = spectrum(tone(), CENTRED)
    monkeypatch.setattr(spectrum_module, "_AT_ONCE", 1024)
    np.testing.assert_array_equal(spectrum(tone(), CENTRED), whole)


BANK = MelBands(40)
REFUSED = {
    "window": (lambda: window("kaiser", 4), ManifestError, "no window named 'kaiser'"),
    "padding": (lambda: padded(np.zeros(4), 1, "edge"), ManifestError, "no padding named 'edge'"),
    "reflect": (lambda: padded(np.zeros(4), 4, "reflect"), DatasetError, "4 samples is too short to be reflected by 4"),
    "short": (lambda: frames(np.zeros(4), 5, 1), DatasetError, "4 samples is shorter than one frame of 5"),
    "hop": (lambda: frames(np.zeros(4), 2, 0), ManifestError, "a hop of 1 or more; got 2 and 0"),
    "spectrum": (lambda: spectrum(tone(), Stft(4, 2, kind="phase")), ManifestError, "spectrum of the kind 'phase'"),
    "FFT": (lambda: spectrum(tone(), Stft(400, 2, 256)), ManifestError, "400 samples and an FFT of 256 do not go"),
    "long FFT": (lambda: spectrum(tone(), Stft(1 << 30, 1)), ManifestError, "at most 65,536"),
    "no window": (lambda: spectrum(tone(), Stft(0, 1)), ManifestError, "A window of 0 samples"),
    "library": (lambda: filters(dataclasses.replace(BANK, library="kaldi"), 512, RATE), ManifestError, "'kaldi'"),
    "scale": (lambda: filters(dataclasses.replace(BANK, scale="bark"), 512, RATE), ManifestError, "scale 'bark'"),
    "norm": (lambda: filters(dataclasses.replace(BANK, norm="l1"), 512, RATE), ManifestError, "norm of mel bands 'l1'"),
    "tensorflow": (lambda: filters(MelBands(4, scale="slaney", library="tensorflow"), 512, RATE), ManifestError, "htk"),
    "bands": (lambda: filters(MelBands(10**9), 512, RATE), ManifestError, "must be 1 to 4,096; got 1,000,000,000"),
    "high": (lambda: filters(MelBands(4, high=9000), 512, RATE), ManifestError, "from 0 to 9000 Hz do not fit 16,000"),
    "log": (lambda: levels(np.ones(1), Log("binary", offset=1)), ManifestError, "no logarithm named 'binary'"),
    "silence": (lambda: levels(np.ones(1), Log("natural")), ManifestError, "logarithm of silence is infinite"),
    "top_db": (lambda: levels(np.ones(1), Log("natural", 1, top_db=80)), ManifestError, "top_db must be 0 or more"),
    "DCT": (lambda: cepstrum(np.ones((1, 4)), Cepstrum(2, "l2")), ManifestError, "norm of the DCT named 'l2'"),
    "count": (lambda: cepstrum(np.ones((1, 4)), Cepstrum(5)), ManifestError, "5 coefficients cannot be taken from 4"),
    "lifter": (lambda: cepstrum(np.ones((1, 4)), Cepstrum(2, lifter=-1)), ManifestError, "lifter must be 0 or more"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case):
    call, kind, sentence = REFUSED[case]
    with pytest.raises(kind, match=sentence) as caught:
        call()
    assert caught.value.hint


def test_a_spectrum_that_would_fill_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr(spectrum_module, "MAX_SAMPLES", 10_000)
    with pytest.raises(DatasetError, match="49 × 257 values, more than 10,000"):
        spectrum(tone(), Stft(480, 320))
