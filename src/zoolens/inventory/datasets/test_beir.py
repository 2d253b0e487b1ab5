"""Folders of BEIR: documents and queries as samples, judged relevance as truths."""

import json

import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import detect, open_dataset
from zoolens.testing.dataset_contract import DatasetContract

DOCUMENTS = [
    {"_id": "d1", "title": "Boats", "text": "boat"},
    {"_id": "d2", "text": "a film"},
    {"_id": "d3", "title": "", "text": ""},
]
QUERIES = [{"_id": "q1", "text": "ship"}, {"_id": "q2", "text": "good"}, {"_id": "q3", "text": "never asked"}]
QRELS = "query-id\tcorpus-id\tscore\nq2\td2\t1\nq1\td1\t2\nq1\td2\t0\nq1\tgone\t1\n"


def written(folder, documents=None, queries=None, qrels=QRELS):
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, rows in (("corpus", documents or DOCUMENTS), ("queries", queries or QUERIES)):
        (folder / f"{name}.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (folder / "qrels" / "test.tsv").write_text(qrels)
    return folder


class TestBeir(DatasetContract):
    def opened(self, tmp_path):
        return open_dataset(f"beir:{written(tmp_path)}")

    def opened_with_another_truth(self, tmp_path):
        return open_dataset(f"beir:{written(tmp_path, qrels=QRELS.replace('d1	2', 'd1	1'))}")


def test_documents_come_first_and_then_the_queries_that_are_judged(tmp_path):
    assert detect(written(tmp_path)) == "beir"
    dataset = open_dataset(tmp_path)
    assert [sample.id for sample in dataset] == ["document d1", "document d2", "document d3", "query q2", "query q1"]
    assert [str(sample.value) for sample in dataset] == ["Boats boat", "a film", "", "good", "ship"]
    assert [dataset.truth(place)["own"][0] for place in range(5)] == ["d1", "d2", "d3", "", ""]
    assert dataset.truth(4)["documents"].tolist() == ["d1", "d2", "gone"]
    assert dataset.truth(4)["gains"].tolist() == [2, 0, 1]
    assert not len(dataset.truth(0)["documents"])


def test_a_query_with_the_id_of_a_document_is_not_ranked_for_itself(tmp_path):
    queries = [{"_id": "d1", "text": "ship"}, {"_id": "q2", "text": "good"}]
    qrels = "query-id\tcorpus-id\tscore\nd1\td2\t1\nq2\td1\t1\n"
    dataset = open_dataset(f"beir:{written(tmp_path, queries=queries, qrels=qrels)}")
    assert dataset.truth(3)["documents"].tolist() == ["d2", "d1"]
    np.testing.assert_array_equal(dataset.truth(3)["gains"], [1, np.nan])
    assert dataset.truth(4)["documents"].tolist() == ["d1"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"documents": [{"_id": "d1", "text": 3}]}, "corpus.jsonl line 1 has no _id, or no text"),
        ({"documents": [DOCUMENTS[0], DOCUMENTS[0]]}, "line 2 has the _id 'd1' again"),
        ({"qrels": "query\tdoc\n1\t2\n"}, "has no column 'query-id'"),
        ({"qrels": "query-id\tcorpus-id\tscore\nq9\td1\t1\n"}, "judges the query 'q9', which queries.jsonl"),
        ({"qrels": "query-id\tcorpus-id\tscore\nq1\td1\tnan\n"}, "line 2 has no query, no document, or no score"),
        ({"qrels": "query-id\tcorpus-id\tscore\nq1\td1\t-1\n"}, "no score of at least 0"),
        ({"qrels": "query-id\tcorpus-id\tscore\n"}, "judges no query"),
        ({"qrels": QRELS + "q1\td1\t0\n"}, "line 6 judges a document for a query again"),
    ],
)
def test_what_cannot_be_read(tmp_path, changes, words):
    with pytest.raises(DatasetError, match=words):
        open_dataset(f"beir:{written(tmp_path, **changes)}")


def test_another_split_and_no_folder(tmp_path):
    with pytest.raises(DatasetError, match=r"There is no .*dev\.tsv"):
        open_dataset(f"beir:{written(tmp_path)}?split=dev")
    with pytest.raises(DatasetError, match="is no name"):
        open_dataset(f"beir:{tmp_path}?split=../test")
