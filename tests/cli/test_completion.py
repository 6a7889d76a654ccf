"""`streamk completion`: its script, asked by a real bash."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_kit import streamk

from streamk.cli.dispatch import COMMANDS

ASK = """
source completion.bash
complete -p streamk
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
_shtab_streamk
printf '%s\\n' "${COMPREPLY[@]}"
"""


def answers(folder: Path, *words: str) -> set[str]:
    """Return what bash offers for the last word."""
    asked = ["bash", "--norc", "-c", ASK, "bash", "streamk", *words]
    done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=True)
    how, *found = done.stdout.splitlines()
    assert how == "complete -o bashdefault -o default -F _shtab_streamk streamk"
    return set(found)


def test_bash_completes_commands_options_and_files(tmp_path: Path) -> None:
    pytest.importorskip("shtab", reason="pip install 'streamk[completion]'")
    if shutil.which("bash") is None:
        pytest.skip("bash is missing")
    script, _ = streamk("completion", "bash", cwd=tmp_path)
    (tmp_path / "completion.bash").write_text(script)
    (tmp_path / "job.toml").touch()
    assert answers(tmp_path, "") == COMMANDS.keys()
    assert answers(tmp_path, "r") == {"run", "rollback"} & COMMANDS.keys()
    assert {"--dead-letters", "--debug"} <= answers(tmp_path, "run", "--de")
    assert answers(tmp_path, "inspect", "--sch") == {"--schema"}
    assert answers(tmp_path, "run", "--config", "jo") == {"job.toml"}
    assert "compdef" in streamk("completion", "zsh", cwd=tmp_path)[0]
    _, err = streamk("completion", "bsh", cwd=tmp_path, status=2)
    assert "no shell 'bsh'; did you mean 'bash'?" in err


def test_it_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    _, err = streamk("completion", "bash", cwd=tmp_path, status=1)
    assert err == "streamk completion: it needs shtab: pip install 'streamk[completion]'\n"
