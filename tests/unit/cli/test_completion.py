"""Completion: what a shell offers at a place of the command line, asked of the shells themselves."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from infinite_memory import cli
from infinite_memory.cli import completion

BASH = """\
source {script}
COMP_WORDS=({words}); COMP_CWORD={position}; COMP_LINE={line}; COMP_POINT=${{#COMP_LINE}}
complete -p infinite-memory >/dev/null || exit 3
function_name=$(complete -p infinite-memory | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
$function_name infinite-memory
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def get_commands() -> list[str]:
    """Return the words that may follow `infinite-memory`."""
    for action in cli.build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return list(action.choices)
    raise AssertionError("the command has no subcommands")


def write_script(folder: Path, shell: str, capsys: pytest.CaptureFixture[str]) -> Path:
    """Write what `infinite-memory completion` prints to a file."""
    assert cli.main(["completion", shell]) == 0
    script = folder / f"completion.{shell}"
    script.write_text(capsys.readouterr().out, "utf-8")
    return script


def complete_in_bash(script: Path, *words: str, cwd: Path) -> set[str]:
    """Return what bash offers for the last of *words*."""
    code = BASH.format(
        script=script, words=shlex.join(words), position=len(words) - 1, line=shlex.quote(" ".join(words))
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split("\n")) - {""}


def test_bash_completes_commands_flags_choices_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = write_script(tmp_path, "bash", capsys)
    (tmp_path / "one.toml").touch()

    def offered(*words: str) -> set[str]:
        return complete_in_bash(script, "infinite-memory", *words, cwd=tmp_path)

    assert offered("") >= set(get_commands())
    assert offered("re") == {name for name in get_commands() if name.startswith("re")}
    assert offered("scopes", "un") == {"unarchive"}
    assert offered("search", "--mo") == {"--mode"}
    assert offered("search", "--mode", "") >= {"hybrid", "semantic", "text", "fuzzy"}
    assert offered("export", "--format", "m") == {"markdown"}
    assert offered("completion", "") >= set(completion.SHELLS)
    assert offered("stats", "--config", "on") == {"one.toml"}
    assert offered("verify", "on") == {"one.toml"}
    assert "--flags-on-stdin" not in offered("daemon", "run", "--")


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_a_shell_can_read_its_script(tmp_path: Path, capsys: pytest.CaptureFixture[str], shell: str) -> None:
    script = write_script(tmp_path, shell, capsys)
    for command in get_commands():
        assert command in script.read_text("utf-8")
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands_and_choices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = write_script(tmp_path, "fish", capsys)
    for line, expected in (("infinite-memory sea", "search"), ("infinite-memory search --mode fu", "fuzzy")):
        code = f"source {shlex.quote(str(script))}; complete -C {shlex.quote(line)}"
        done = subprocess.run(["fish", "-c", code], capture_output=True, text=True, check=True)
        assert expected in {offer.split("\t")[0] for offer in done.stdout.splitlines()}


def test_another_shell_is_a_usage_fault(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["completion", "tcsh"])
    assert left.value.code == 2
