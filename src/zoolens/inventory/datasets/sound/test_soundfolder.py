"""Folders of sounds: classes from folders, names and tables, times from RTTM files, and sentences for what is wrong."""

import wave

import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import detect, open_dataset
from zoolens.inventory.datasets.sound.rttm import read_rttm
from zoolens.inventory.datasets.sound.soundfolder import open_sounds
from zoolens.inventory.datasets.sound.waveform import from_record

RTTM = "SPEAKER talk 1 0.50 1.25 <NA> <NA> a <NA> <NA>\nSPEAKER talk 1 3 1 <NA> <NA> b <NA> <NA>\n"


def write(path, samples=(1, 2, 3), rate=8000, channels=1):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(np.array(samples, "<i2").tobytes())
    return path


@pytest.fixture
def words(tmp_path):
    for name, rate in (("yes/a.wav", 8000), ("no/b.wav", 16000), ("yes/c.wav", 8000)):
        write(tmp_path / "words" / name, rate=rate)
    return tmp_path / "words"


def test_each_sound_keeps_the_rate_of_its_own_file(words):
    dataset = open_dataset(words)
    assert dataset.classes == ("no", "yes")
    assert dataset.labels().tolist() == [0, 1, 1]
    assert [from_record(sample.value).rate for sample in dataset] == [16000, 8000, 8000]
    np.testing.assert_array_equal(from_record(dataset.read(0).value).samples[:, 0] * 32768, [1, 2, 3])
    assert [sample.id for sample in dataset] == ["no/b.wav", "yes/a.wav", "yes/c.wav"]


def test_the_kind_is_recognised(words):
    assert detect(words) == "sounds"
    assert detect(words / "yes" / "a.wav") == "sounds"
    (words / "labels.csv").write_text("file,label\nyes/a.wav,0\n")
    assert detect(words) == "sounds"
    assert len(open_dataset(words)) == 1


def test_the_class_may_stand_in_the_name_or_in_a_table(tmp_path):
    for name in ("sea_waves_5-20.wav", "dog_5-1.wav"):
        write(tmp_path / name)
    named = open_sounds(str(tmp_path), pattern="{label}_5-*")
    assert named.classes == ("dog", "sea_waves")
    assert open_sounds(str(tmp_path)).labels().tolist() == [-1, -1]
    (tmp_path / "classes.csv").write_text("path,sound\ndog_5-1.wav,1\nsea_waves_5-20.wav,0\n")
    assert open_sounds(str(tmp_path), labels="classes.csv").labels().tolist() == [1, 0]


def test_times_come_from_rttm_files(tmp_path):
    write(tmp_path / "talk.wav")
    write(tmp_path / "other" / "music.wav")
    (tmp_path / "talk.rttm").write_text(";; a comment\n" + RTTM)
    dataset = open_dataset(f"sounds:{tmp_path}?rttm=beside")
    assert dataset.truth_kind == "activity"
    assert [sample.id for sample in dataset] == ["talk.wav"]
    assert dataset.notes == ("1 sound without turns in an RTTM file is left out",)
    truth = dataset.truth(0)
    np.testing.assert_array_equal(truth["intervals"], [[0.5, 1.75], [3, 4]])
    assert truth["timed"].all()
    shared = open_dataset(f"sounds:{tmp_path}?rttm=talk.rttm")
    assert shared.fingerprint() == dataset.fingerprint()
    (tmp_path / "talk.rttm").write_text(RTTM.replace("1.25", "1.26"))
    assert open_dataset(f"sounds:{tmp_path}?rttm=beside").fingerprint() != dataset.fingerprint()


def test_whether_anybody_speaks_may_be_all_that_is_known(words):
    write(words / "loose.wav")
    dataset = open_dataset(f"sounds:{words}?active=yes")
    assert dataset.notes == ("1 sound that lies beside the folders of classes is left out",)
    assert [len(dataset.truth(place)["intervals"]) for place in range(3)] == [0, 1, 1]
    assert not dataset.truth(0)["timed"].any()
    assert dataset.fingerprint() != open_dataset(f"sounds:{words}?active=no").fingerprint()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pattern": "{label}-*"}, "does not fit the pattern"),
        ({"pattern": "*"}, "must say once where the class stands"),
        ({"labels": "none.csv"}, "There is no labels file"),
        ({"rttm": "../x.rttm"}, "lies outside the folder"),
        ({"rttm": "x.rttm"}, "cannot be read: No such file"),
        ({"rttm": "beside"}, "holds no sounds"),
        ({"active": "maybe"}, "There is no class 'maybe' among the sounds"),
        ({"rttm": "beside", "pattern": "{label}"}, "each say what is right"),
    ],
)
def test_wrong_options_get_a_sentence(words, options, sentence):
    with pytest.raises(DatasetError, match=sentence):
        open_sounds(str(words), **options)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no line SPEAKER"),
        ("SPEAKER talk 1 0.5\n", "line 1 has 4 fields"),
        ("SPEAKER talk 1 0.5 -1\n", "has the time '-1'"),
        ("SPEAKER talk 1 nan 1\n", "has the time 'nan'"),
        ("SPEAKER talk 1 one 1\n", "has the time 'one'"),
    ],
)
def test_a_damaged_rttm_file_gets_a_sentence(tmp_path, text, sentence):
    (tmp_path / "a.rttm").write_text(text)
    with pytest.raises(DatasetError, match=sentence):
        read_rttm(tmp_path / "a.rttm")


def test_damaged_sounds_are_named_when_they_are_read(tmp_path):
    whole = write(tmp_path / "whole.wav", range(100)).read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[:60])
    (tmp_path / "empty.wav").write_bytes(b"")
    write(tmp_path / "silent.wav", ())
    dataset = open_sounds(str(tmp_path))
    for place, sentence in ((0, r"cut\.wav cannot be decoded"), (1, r"empty\.wav is empty"), (2, "has no samples")):
        with pytest.raises(DatasetError, match=sentence):
            dataset.read(place)
