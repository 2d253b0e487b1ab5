import io
import zipfile

import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.runtime import ModelFiles
from zoolens.inventory.runtimes.tensorflow.keras_sizes import check_sizes

h5py = pytest.importorskip("h5py", reason="h5py is not installed")


def written(path, **arguments):
    with h5py.File(path, "w") as file:
        file.create_dataset("layer/kernel", dtype="f4", **arguments)
    return path


def check(path, format_="keras-h5"):
    check_sizes(ModelFiles(format_, {"model": path}))


def test_plain_weights_pass(tmp_path):
    check(written(tmp_path / "a.h5", data=[1.0, 2.0]))


def test_datasets_that_take_no_room_are_refused(tmp_path):
    unwritten = written(tmp_path / "a.h5", shape=(1 << 33,))
    packed = written(tmp_path / "b.h5", shape=(1 << 33,), compression="gzip", chunks=(1 << 20,))
    for path in (unwritten, packed):
        assert path.stat().st_size < 10_000
        with pytest.raises(ModelError, match="unpacks to more than 67,108,864 bytes"):
            check(path)


def test_the_same_inside_a_keras_file(tmp_path):
    content = io.BytesIO()
    written(content, shape=(1 << 33,))
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "m.keras", "w", kind) as archive:
            archive.writestr("model.weights.h5", content.getvalue())
        with pytest.raises(ModelError, match=r"m\.keras unpacks to more than"):
            check(tmp_path / "m.keras", "keras")


def test_weights_in_other_files_are_refused(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(8))
    borrowed = written(tmp_path / "a.h5", shape=(2,), external=[(str(tmp_path / "secret"), 0, 8)])
    with pytest.raises(ModelError, match="keeps 'kernel' in another file"):
        check(borrowed)
    layout = h5py.VirtualLayout((2,), "f4")
    layout[:] = h5py.VirtualSource(str(tmp_path / "a.h5"), "layer/kernel", (2,))
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_virtual_dataset("kernel", layout)
    with pytest.raises(ModelError, match="keeps 'kernel' in another file"):
        check(tmp_path / "b.h5")
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["kernel"] = h5py.ExternalLink(str(tmp_path / "a.h5"), "layer/kernel")
    with pytest.raises(ModelError, match="link to another file"):
        check(tmp_path / "c.h5")


def test_what_is_no_hdf5_file_is_named(tmp_path):
    (tmp_path / "a.h5").write_bytes(b"text")
    with pytest.raises(ModelError, match=r"a\.h5 is not a complete keras-h5 file"):
        check(tmp_path / "a.h5")
