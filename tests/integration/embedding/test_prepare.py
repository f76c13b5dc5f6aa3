"""A model is made ready by a process that may be killed at any moment; here with the weights and tools that the tests' environment has."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from infinite_memory.embedding import verification
from infinite_memory.embedding.factory import DeferredEmbedder, MissingEmbedder, open_embedder
from infinite_memory.embedding.manifest import Manifest
from infinite_memory.embedding.onnx import OnnxEmbedder
from infinite_memory.embedding.preparation import Preparation
from infinite_memory.embedding.prepare import prepare
from infinite_memory.errors import EmbeddingError
from tests.processes import LONG, is_alive, processes_of, until

NAME = "all-MiniLM-L6-v2"
NEIGHBOUR = 65534
KILLS = 10 if LONG else 1

pytestmark = pytest.mark.usefixtures("weights")


def prepared(target: Path) -> subprocess.Popen[bytes]:
    """Start the process that makes the model ready from the installed weights, in a group of its own."""
    command = [sys.executable, "-m", "infinite_memory.embedding.prepare", "--to", str(target), "--precision", "int8"]
    return subprocess.Popen(
        command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def run(target: Path) -> None:
    """Run it to its end."""
    with prepared(target) as process:
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert process.wait() == 0, said


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory, weights: Path) -> tuple[Path, float]:
    """The folder in which the model was made ready once, and how many seconds that took."""
    folder = tmp_path_factory.mktemp("prepared")
    started = time.monotonic()
    run(folder / NAME)
    return folder, time.monotonic() - started


@pytest.mark.timeout(600)
def test_killed_at_any_moment_it_leaves_nothing_that_the_next_run_does_not_mend(
    tmp_path: Path, first_run: tuple[Path, float]
) -> None:
    whole, whole_s = first_run
    target = tmp_path / NAME
    expected = names(whole)
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    for number in range(KILLS):
        for file in target.iterdir():
            file.unlink()
        target.rmdir()
        with prepared(target) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(whole_s * (number + 0.5) / KILLS)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if target.exists():  # it was quicker this time, or was killed after the last step: then all is there
            assert verification.check_fidelity(OnnxEmbedder(target)).is_faithful
        run(target)
        assert names(tmp_path) == expected
        assert verification.check_fidelity(OnnxEmbedder(target)).is_faithful
        assert verification.check_fidelity(OnnxEmbedder(target, precision="int8")).is_faithful


def test_only_the_precision_that_is_wanted_is_written_and_another_is_added_later(tmp_path: Path) -> None:
    target = tmp_path / NAME
    command = [sys.executable, "-m", "infinite_memory.embedding.prepare", "--to", str(target)]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    assert not (target / "model.int8.onnx").exists()
    assert verification.check_fidelity(OnnxEmbedder(target)).is_faithful
    run(target)
    assert (target / "model.int8.onnx").exists()
    assert verification.check_fidelity(OnnxEmbedder(target, precision="int8")).is_faithful


def test_two_at_once_take_turns(tmp_path: Path) -> None:
    target = tmp_path / NAME
    both = [prepared(target), prepared(target)]
    for process in both:
        with process:
            assert process.wait() == 0
    assert verification.check_fidelity(OnnxEmbedder(target)).is_faithful
    assert names(tmp_path) == [f".{NAME}.lock", NAME]


def test_what_is_ready_is_left_alone(tmp_path: Path, first_run: tuple[Path, float]) -> None:
    target = tmp_path / NAME
    shutil.copytree(first_run[0], tmp_path, dirs_exist_ok=True)
    before = (target / "manifest.json").stat().st_mtime_ns
    run(target)
    assert (target / "manifest.json").stat().st_mtime_ns == before
    (target / "model.onnx").write_bytes(b"cut")  # by a full disk, say
    run(target)
    assert verification.check_fidelity(OnnxEmbedder(target)).is_faithful


def test_progress_rises_and_the_vectors_are_those_of_the_reference(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    embedder = DeferredEmbedder(tmp_path / NAME, precision="int8")
    assert embedder.preparing == 0
    with pytest.raises(EmbeddingError, match="not ready yet"):
        embedder.embed(["tea"])
    Preparation(NAME, tmp_path / NAME, precision="int8").run(lambda step, percent: told.append((step, percent)))
    assert next(step for step, _ in told) == "writing it"
    assert [percent for _, percent in told] == sorted(percent for _, percent in told)
    embedder.load()
    assert embedder.preparing is None
    assert embedder.embed(["tea"]).shape == (1, embedder.dim)
    assert embedder.space == "all-MiniLM-L6-v2/384/int8"


def test_it_can_be_stopped_and_leaves_no_process(tmp_path: Path) -> None:
    preparation = Preparation(NAME, tmp_path / NAME, precision="int8")
    problems: list[EmbeddingError] = []

    def work() -> None:
        try:
            preparation.run()
        except EmbeddingError as exc:
            problems.append(exc)

    thread = threading.Thread(target=work)
    thread.start()
    until((tmp_path / f".{NAME}.lock").exists, "it works")
    preparation.stop()
    thread.join(30)
    assert "stopped" in str(problems[0])
    until(lambda: not processes_of(tmp_path), "no process is left")
    with pytest.raises(EmbeddingError, match="stopped"):
        preparation.run()


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from infinite_memory.embedding.preparation import Preparation;"
        f"Preparation({NAME!r}, Path(sys.argv[1]), precision='int8').run()"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / NAME)], start_new_session=True)
    until((tmp_path / f".{NAME}.lock").exists, "it works")
    children = processes_of(tmp_path)
    parent.kill()
    parent.wait()
    until(lambda: not any(map(is_alive, children)), "no process is left")
    assert len(children) == 2


def test_what_is_in_the_way_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddingError, match=r"could not be made ready \(.*file.*cannot be written"):
        Preparation(NAME, tmp_path / "file" / NAME).run()
    with pytest.raises(EmbeddingError, match="hub cannot give it"):
        Preparation("nobody/nothing", tmp_path / "nothing").run()
    monkeypatch.setattr("infinite_memory.embedding.prepare.REQUIRED_BYTES", 10**18)
    with pytest.raises(EmbeddingError, match=r"needs 1000000000000 MB of disk .* MB left"):
        prepare(NAME, tmp_path / NAME)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can make folders of other users")
@pytest.mark.parametrize(
    "what", ["all may write to it", "a neighbour's", "below a neighbour's", "the model is a neighbour's"]
)
def test_a_cache_into_which_others_can_write_is_refused_and_nothing_in_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    models = tmp_path / "cache" / "infinite-memory" / "models"
    models.mkdir(parents=True)
    if what == "all may write to it":
        models.chmod(0o1777)
    elif what == "a neighbour's":
        os.chown(models, NEIGHBOUR, NEIGHBOUR)
    elif what == "below a neighbour's":
        os.chown(models.parent, NEIGHBOUR, NEIGHBOUR)
    target = models / NAME
    target.mkdir()
    Manifest(NAME, 384, 256, "mean", "a neighbour", "", {}).save(target)
    if what == "the model is a neighbour's":
        os.chown(target, NEIGHBOUR, NEIGHBOUR)
    before = names(models)
    with pytest.raises(EmbeddingError, match="is not used for models: another user of this machine can write to it"):
        prepare(NAME, target)
    assert names(models) == before
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    embedder = open_embedder(NAME)
    assert isinstance(embedder, MissingEmbedder)
    with pytest.raises(EmbeddingError, match="is not used for models"):
        embedder.load()


def test_a_folder_with_a_name_that_can_be_known_is_neither_used_nor_left(tmp_path: Path) -> None:
    planted = tmp_path / f".{NAME}.work" / "export-tools-export-weights" / "onnx"
    planted.mkdir(parents=True)
    (planted / "__init__.py").write_text("raise SystemExit(7)")
    run(tmp_path / NAME)
    assert names(tmp_path) == [f".{NAME}.lock", NAME]
