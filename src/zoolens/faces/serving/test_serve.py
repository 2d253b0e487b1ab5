import threading

import pytest

from zoolens.base.errors import ZoolensError

pytest.importorskip("uvicorn")
pytest.importorskip("grpc")

from zoolens.faces.serving.serve import serve


@pytest.mark.parametrize("asked", [{"models": "nobody"}, {"services": ["nowhere.yaml"]}])
def test_a_server_that_cannot_start_says_why(asked):
    """The thread has ended with its event loop when the block is left, and there is nothing to stop any more."""
    before = set(threading.enumerate())  # servers of other tests of this process may live on
    with pytest.raises(ZoolensError, match=r"nobody|nowhere"), serve(http=0, grpc=None, **asked):
        pass
    assert "zoolens-serve" not in [thread.name for thread in set(threading.enumerate()) - before]


def test_a_name_too_long_for_a_file_is_one_sentence():
    long = pytest.raises(ZoolensError, match="too long for the name of a file")
    with long as caught, serve("x" * 5000, http=0, grpc=None):
        pass
    assert len(str(caught.value)) < 200
