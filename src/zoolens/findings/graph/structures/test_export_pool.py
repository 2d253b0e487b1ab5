"""Workers and their pool, with importers of all bad habits (defined here, imported by the workers)."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from zoolens.base.engine import landlock
from zoolens.base.engine.environments import environment_of
from zoolens.base.engine.sandbox import trusting
from zoolens.base.engine.service import response
from zoolens.base.errors import EnvironmentBuildError, ModelError
from zoolens.findings.graph.importers.importer import Importer, Request
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.structures.export import export, export_many
from zoolens.findings.graph.structures.export_pool import ExportJob, _Plan
from zoolens.findings.graph.structures.graph_worker import answer, doing


def load(request):
    match request.subject:
        case "prints":
            print("noise on standard output")
        case "refuses":
            raise ModelError("It is made of glass.", hint="Do not touch it.")
        case "is buggy":
            [][1]
        case "is careless":
            return Graph("careless", (), ("nothing",))
        case "exits":
            sys.exit("enough")
        case "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "litters":
            Path(tempfile.gettempdir(), request.arguments["name"]).write_text("nobody tidies up after a kill")
        case "last words":
            os.write(2, b"some noise\nout of cheese\n")
            os._exit(7)
        case "sleeps":
            Path(tempfile.gettempdir(), request.arguments["note"]).write_text(str(os.getpid()))
            time.sleep(600)
        case "is tired" if Path(tempfile.gettempdir(), "tired").exists():
            os._exit(1)
        case "tires":
            Path(tempfile.gettempdir(), "tired").touch()
        case "writes":
            Path(request.arguments["note"]).write_text("outside")
    graph = GraphBuilder(request.subject)
    height, width = request.size or (8, 8)
    image = graph.add("input", (), (1, 3, height, width), axes="NCHW")
    facts = {"process": os.getpid(), "threads": os.environ["OMP_NUM_THREADS"], "arguments": dict(request.arguments)}
    return graph.finish([graph.add("relu", [image], (1, 3, height, width))], facts)


HABITS = Importer(load, ())
NOT_ONE = "no importer"
POINT = f"{__name__}:HABITS"


def job(subject, point=POINT, **options):
    arguments = options.pop("arguments", {})
    return ExportJob(subject, point, Request(subject, options.pop("size", None), arguments), raw=True, **options)


def test_a_graph_comes_back_whatever_the_framework_prints():
    done = export(job("prints", size=(4, 5), arguments={"classes": 10}))
    assert done.error is None
    assert done.graph.inputs[0].shape == (1, 3, 4, 5)
    assert done.graph.facts["arguments"] == {"classes": 10}
    assert done.graph.facts["threads"] == "1"
    assert done.graph.facts["process"] != os.getpid()


def test_what_fails_is_an_error_of_its_own_and_stops_no_other():
    subjects = ["refuses", "is buggy", "is careless", "exits", "crashes", "last words", "fine"]
    found = {done.job.key: done for done in export_many(map(job, subjects), workers=1)}
    assert found["fine"].graph is not None
    assert (found["refuses"].error, found["refuses"].hint) == ("It is made of glass.", "Do not touch it.")
    assert "unexpected IndexError at test_export_pool.py" in found["is buggy"].error
    assert "no node produces the output" in found["is careless"].error
    assert "exit with 'enough'" in found["exits"].error
    assert "died with signal 11 (SIGSEGV)" in found["crashes"].error
    assert "exited with code 7" in found["last words"].error
    assert "out of cheese" in found["last words"].hint
    assert not any(done.circumstantial for done in found.values())


def test_what_the_machine_kills_is_circumstance():
    """The kernel does so where memory is short: another day the model may be read."""
    done = export(job("is killed"))
    assert done.circumstantial
    assert "Is there enough memory?" in done.reason


def test_temporary_files_of_frameworks_go_with_their_worker(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert export(job("litters", arguments={"name": "litter"})).error is None
    assert list(tmp_path.rglob("*")) == []


def test_a_worker_that_others_have_worn_out_is_not_the_fault_of_the_model():
    jobs = [job("tires", weight=2), job("is tired")]
    assert [done.error for done in export_many(jobs, workers=1)] == [None, None]


@pytest.mark.slow  # it waits
def test_a_model_that_takes_too_long_is_stopped(tmp_path):
    note = tmp_path / "note"
    slow, quick = job("sleeps", arguments={"note": str(note)}, weight=2), job("fine")
    with trusting():  # which lets it say its number
        began = time.monotonic()
        assert export(quick).graph is not None
        limit = max(1, round(8 * (time.monotonic() - began)))  # a worker starts within it however busy the machine is
        [first, second] = export_many([quick, slow], workers=1, timeout=limit)
    assert first.error == f"Reading the structure of sleeps took more than {limit} s."
    assert second.graph is not None
    assert gone(int(note.read_text()))


@pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock, which confines files")
def test_an_importer_writes_only_with_trust(tmp_path):
    note = tmp_path / "note"
    writes = job("writes", arguments={"note": str(note)})
    assert "PermissionError" in export(writes).error
    assert not note.exists()
    with trusting():
        assert export(writes).error is None
    assert note.exists()


@pytest.mark.parametrize("point", ["zoolens.findings.graph.absent:X", f"{__name__}:ABSENT", f"{__name__}:NOT_ONE"])
def test_an_importer_that_is_none(point):
    assert "unexpected" in export(job("fine", point)).error


def test_an_environment_that_cannot_be_made_is_circumstance(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    told = []
    elsewhere = [job("fine", environment=environment_of(["no-such-package==1.0"])) for _ in range(2)]
    found = list(export_many([*elsewhere, job("fine")], say=told.append))
    assert sorted(done.circumstantial for done in found) == [False, True, True]
    assert all("could not be made" in done.error for done in found if done.circumstantial)
    assert "Making a virtual environment" in told


def test_no_jobs_start_nothing():
    assert list(export_many([])) == []


def test_whoever_stops_listening_leaves_no_process_behind():
    found = export_many([job(str(number)) for number in range(50)], workers=2)
    worker = next(found).graph.facts["process"]
    found.close()
    assert gone(worker)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_us(tmp_path, monkeypatch, number):
    litter = tmp_path / "temporary"
    litter.mkdir()
    monkeypatch.setenv("TMPDIR", str(litter))
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[4])!r})\n"
        f"from {__name__} import job, export\n"
        f"export(job('sleeps', arguments={{'note': 'note'}}))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    wait_until(lambda: any(note.read_text() for note in litter.rglob("note")))
    (worker,) = [int(note.read_text()) for note in litter.rglob("note")]
    parent.send_signal(number)
    parent.wait(20)
    wait_until(lambda: gone(worker))
    wait_until(lambda: list(litter.iterdir()) == [])


def wait_until(condition):
    for _ in range(200):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("it never came true")


def gone(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


# --- who does what


def test_each_framework_is_imported_by_one_worker_unless_there_is_much_to_do():
    plan = _Plan([job("a1", "a:A"), job("a2", "a:B"), job("b", "b:A")])
    assert [plan.join(), plan.join(), plan.join()] == [("a", None), ("b", None), None]


def test_long_queues_are_shared_and_the_longest_come_first():
    plan = _Plan([*(job(str(weight), "a:A", weight=weight) for weight in (3, 9, 5)), job("b", "b:A", weight=7)])
    assert [plan.join(), plan.join(), plan.join()] == [("a", None), ("a", None), ("b", None)]
    assert [plan.next(("a", None)).weight for _ in range(3)] == [9, 5, 3]
    assert plan.next(("a", None)) is None
    assert plan.next(("b", None)).weight == 7
    assert plan.join() is None


def test_requirements_of_importers_are_checked_like_any_other():
    with pytest.raises(EnvironmentBuildError):
        environment_of(["numpy"], ["--index-url=https://example.org/simple"])


def test_what_went_wrong_unexpectedly_names_the_file_and_not_where_it_lies():
    request = {"importer": "zoolens.findings.graph.nowhere:NOTHING", "subject": "/home/somebody/net.onnx"}
    told = response(request, answer, doing)["error"]["message"]
    assert told.startswith("Reading net.onnx met an unexpected ModuleNotFoundError")
