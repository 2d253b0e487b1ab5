"""Graphs that do more than compute are refused by an allow-list, and nothing of them runs."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.runtime import ModelFiles
from zoolens.inventory.runtimes.tensorflow.tensorflow_graph import OPERATORS
from zoolens.inventory.runtimes.tensorflow.tensorflow_runtime import TensorFlow
from zoolens.testing import models

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tf_keras")


def _saved(folder, function):
    module = tf.Module()
    module.run = tf.function(function, input_signature=[tf.TensorSpec((None, 4), tf.float32, "x")])
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.run})
    return ModelFiles("tf-savedmodel", {"model": folder})


def _changed(files, change):
    """The SavedModel with its protocol buffer changed: change(meta graph)."""
    from tensorflow.core.protobuf import saved_model_pb2

    path = files.path() / "saved_model.pb"
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString(path.read_bytes())
    change(saved.meta_graphs[0])
    path.write_bytes(saved.SerializeToString())
    return files


def _lines(dataset):
    return tf.cast(dataset.reduce(tf.constant(0, tf.int64), lambda count, *_: count + 1), tf.float32)


def _secret(tmp_path):
    (tmp_path / "secret.csv").write_text("1.0\n2.0\n")
    return str(tmp_path / "secret.csv")


ATTACKS = {
    "WriteFile": lambda x, mark, secret: tf.io.write_file(mark, "x"),
    "ReadFile": lambda x, mark, secret: tf.io.read_file(secret),
    "MatchingFiles": lambda x, mark, secret: tf.io.matching_files(secret),
    "EagerPyFunc": lambda x, mark, secret: tf.py_function(lambda value: value, [x], tf.float32),
    "PyFunc": lambda x, mark, secret: tf.numpy_function(lambda value: value, [x], tf.float32),
    "PrintV2": lambda x, mark, secret: tf.print("x", output_stream=f"file://{mark}"),
    "SaveV2": lambda x, mark, secret: tf.raw_ops.SaveV2(
        prefix=mark, tensor_names=["x"], shape_and_slices=[""], tensors=[x]
    ),
    "CSVDatasetV2": lambda x, mark, secret: _lines(tf.data.experimental.CsvDataset(secret, [tf.float32])),
    "TextLineDataset": lambda x, mark, secret: _lines(tf.data.TextLineDataset(secret)),
    "DatasetToTFRecord": lambda x, mark, secret: tf.raw_ops.DatasetToTFRecord(
        input_dataset=tf.data.Dataset.from_tensors("x")._variant_tensor, filename=mark, compression_type=""
    ),
    "CacheDatasetV2": lambda x, mark, secret: _lines(tf.data.Dataset.range(3).cache(mark)),
    "SaveDatasetV2": lambda x, mark, secret: tf.raw_ops.SaveDatasetV2(
        input_dataset=tf.data.Dataset.range(3)._variant_tensor,
        path=mark,
        shard_func_other_args=[],
        shard_func=tf.function(lambda i: tf.constant(0, tf.int64), autograph=False).get_concrete_function(
            tf.TensorSpec((), tf.int64)
        ),
        output_types=[tf.int64],
        output_shapes=[()],
    ),
    "ImmutableConst": lambda x, mark, secret: tf.raw_ops.ImmutableConst(
        dtype=tf.uint8, shape=[4], memory_region_name=secret
    ),
    "CreateSummaryFileWriter": lambda x, mark, secret: tf.raw_ops.CreateSummaryFileWriter(
        writer=tf.raw_ops.SummaryWriter(), logdir=mark, max_queue=1, flush_millis=1, filename_suffix="x"
    ),
    "WholeFileReaderV2": lambda x, mark, secret: tf.raw_ops.WholeFileReaderV2(),
    "InitializeTableFromTextFileV2": lambda x, mark, secret: tf.raw_ops.InitializeTableFromTextFileV2(
        table_handle=tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64),
        filename=secret,
        key_index=-2,
        value_index=-1,
    ),
    "FixedUnigramCandidateSampler": lambda x, mark, secret: tf.raw_ops.FixedUnigramCandidateSampler(
        true_classes=[[1]], num_true=1, num_sampled=1, unique=False, range_max=2, vocab_file=secret
    ),
    "GenerateVocabRemapping": lambda x, mark, secret: tf.raw_ops.GenerateVocabRemapping(
        new_vocab_file=secret, old_vocab_file=secret, new_vocab_offset=0, num_new_vocab=1
    ),
    "DebugIdentityV2": lambda x, mark, secret: tf.raw_ops.DebugIdentityV2(input=x, debug_urls=[f"file://{mark}"]),
    "DumpTensor": None,
    "FileSystemSetConfiguration": lambda x, mark, secret: tf.raw_ops.FileSystemSetConfiguration(
        scheme="file", key="k", value="v"
    ),
    "Abort": lambda x, mark, secret: tf.raw_ops.Abort(error_msg="x", exit_without_error=True),
    "XlaCustomCall": None,
    "DecodeProtoV2": lambda x, mark, secret: tf.raw_ops.DecodeProtoV2(
        bytes=["x"], message_type="x", field_names=[], output_types=[], descriptor_source=secret
    ),
}


@pytest.mark.parametrize("operator", [name for name, attack in ATTACKS.items() if attack])
def test_a_saved_model_that_does_more_than_compute_is_refused(tmp_path, operator):
    mark, secret = tmp_path / "ran", _secret(tmp_path)

    def hostile(x):
        ATTACKS[operator](x, str(mark), secret)
        return {"y": x + 1.0}

    # Named is the first one that is not allowed, which may be what the attack is made with.
    with pytest.raises(
        ModelError, match=rf"the operator ({operator}|\w+Dataset|SummaryWriter)|saves or restores files"
    ):
        TensorFlow().open(_saved(tmp_path / "hostile", hostile))
    assert not list(tmp_path.glob("ran*"))


def test_every_operator_that_names_a_file_or_a_place_is_absent_from_the_list():
    """What TensorFlow itself says of its operators, whatever their names."""
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    registered = op_def_pb2.OpList()
    registered.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    assert not OPERATORS & set(ATTACKS)
    for operator in registered.op:
        named = {argument.name for argument in (*operator.input_arg, *operator.attr)}
        suspicious = named & {
            "filename",
            "filenames",
            "file",
            "path",
            "prefix",
            "pattern_path",
            "debug_urls",
            "address",
        }
        suspicious |= {name for name in named if "file" in name or "url" in name}
        assert operator.name not in OPERATORS or not suspicious, (operator.name, suspicious)
        assert operator.name not in OPERATORS or "Dataset" not in operator.name


def test_a_frozen_graph_that_reads_is_refused(tmp_path):
    graph = tf.Graph()
    with graph.as_default():
        image = tf.compat.v1.placeholder(tf.float32, (None, 4), "image")
        content = tf.raw_ops.ImmutableConst(dtype=tf.float32, shape=[1], memory_region_name=_secret(tmp_path))
        tf.add(image, content, "answer")
    path = tmp_path / "hostile.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(ModelError, match="ImmutableConst"):
        TensorFlow().open(ModelFiles("tf-frozen", {"model": path}))


# --- structure: functions, objects, assets, savers


def test_a_call_of_a_function_that_is_not_in_the_file_is_refused(tmp_path):
    def leading_out(meta):
        for function in meta.graph_def.library.function:
            for node in function.node_def:
                if node.op in ("StatefulPartitionedCall", "PartitionedCall"):
                    node.attr["f"].func.name = "WriteFile"

    files = _changed(models.tf_savedmodel(tmp_path), leading_out)
    with pytest.raises(ModelError, match="not in the file"):
        TensorFlow().open(files)


def test_the_saver_of_a_saved_model_may_not_be_called_by_its_objects(tmp_path):
    def calling_the_saver(meta):
        saver = next(f.signature.name for f in meta.graph_def.library.function if "traced_save" in f.signature.name)
        meta.object_graph_def.nodes.add().function.concrete_functions.append(saver)

    files = _changed(models.tf_savedmodel(tmp_path), calling_the_saver)
    with pytest.raises(ModelError, match="saves or restores files"):
        TensorFlow().open(files)


def test_a_saver_may_not_stand_in_for_another_function(tmp_path):
    """Grappler swaps functions that say they implement the same interface."""

    def swapped(meta):
        for function in meta.graph_def.library.function:
            function.attr["api_implements"].s = b"the_same"

    files = _changed(models.tf_savedmodel(tmp_path), swapped)
    with pytest.raises(ModelError, match="saves or restores files"):
        TensorFlow().open(files)


def test_an_asset_outside_the_folder_is_refused(tmp_path):
    def leading_out(meta):
        meta.asset_file_def.add().filename = "../../../etc/passwd"

    with pytest.raises(ModelError, match="outside its folder"):
        TensorFlow().open(_changed(models.tf_savedmodel(tmp_path), leading_out))


def test_a_link_to_another_checkpoint_is_refused(tmp_path):
    files = models.tf_savedmodel(tmp_path)
    (data,) = (files.path() / "variables").glob("variables.data*")
    data.rename(tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="leads out of the SavedModel"):
        TensorFlow().open(files)


def _version_one(folder, answer=lambda x, w: x * w):
    """A SavedModel as TensorFlow 1 wrote them: a graph with a saver inside, no objects."""
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session(graph=graph) as session:
        x = tf.compat.v1.placeholder(tf.float32, (None, 4), "x")
        w = tf.compat.v1.get_variable("w", (4,), initializer=tf.compat.v1.constant_initializer(2.0))
        y = tf.identity(answer(x, w), "y")
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.saved_model.simple_save(session, str(folder), {"x": x}, {"y": y})
    return ModelFiles("tf-savedmodel", {"model": folder})


def test_a_saved_model_of_tensorflow_1_runs(tmp_path):
    with TensorFlow().open(_version_one(tmp_path / "old")) as session:
        ones = np.ones((3, 4), np.float32)
        np.testing.assert_array_equal(session.predict({"x": ones})["y"], 2 * ones)


def test_tables_in_memory_run(tmp_path):
    keys, values = tf.constant([1, 2], tf.int64), tf.constant([10.0, 20.0])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), 0.0)
    module = tf.Module()
    module.table = table
    module.run = tf.function(
        lambda x: {"y": table.lookup(tf.cast(x, tf.int64))}, input_signature=[tf.TensorSpec((None, 4), tf.float32, "x")]
    )
    tf.saved_model.save(module, str(tmp_path / "table"), signatures={"serving_default": module.run})
    with TensorFlow().open(ModelFiles("tf-savedmodel", {"model": tmp_path / "table"})) as session:
        assert (session.predict({"x": np.full((1, 4), 2, np.float32)})["y"] == 20).all()


def _restoring_elsewhere(meta):
    node = meta.graph_def.node.add(name="place", op="Const")
    node.attr["dtype"].type = tf.string.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto("/elsewhere"))
    restore = next(node for node in meta.graph_def.node if node.op == "RestoreV2")
    restore.input[0] = "place"


def _restoring_by_saving(meta):
    save = next(node for node in meta.graph_def.node if node.op == "SaveV2")
    restore = next(node for node in meta.graph_def.node if node.name == meta.saver_def.restore_op_name)
    restore.input.append(f"^{save.name}")


def _answering_by_saving(meta):
    save = next(node for node in meta.graph_def.node if node.op == "SaveV2")
    next(node for node in meta.graph_def.node if node.name == "y").input.append(f"^{save.name}")


def _initialising_by_saving(meta):
    save = next(node for node in meta.graph_def.node if node.op == "SaveV2")
    meta.collection_def["saved_model_main_op"].node_list.value.append(save.name)


def _collected(meta):
    save = next(node for node in meta.graph_def.node if node.op == "SaveV2")
    meta.collection_def["variables"].bytes_list.value.append(save.name.encode())


@pytest.mark.parametrize(
    "change", [_restoring_elsewhere, _restoring_by_saving, _answering_by_saving, _initialising_by_saving, _collected]
)
def test_a_saver_that_is_turned_to_other_uses_is_refused(tmp_path, change):
    with pytest.raises(ModelError, match=r"RestoreV2|SaveV2|ShardedFilename|saves or restores"):
        TensorFlow().open(_changed(_version_one(tmp_path / "old"), change))
