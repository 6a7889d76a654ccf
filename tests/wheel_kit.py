"""The wheel that users install, and environments that have never seen this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command that must succeed; return what it wrote to stdout."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=840,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def build(out: Path) -> Path:
    """Build the wheel."""
    run(sys.executable, "-m", "build", "--wheel", "--outdir", out, cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


class Environment:
    """A clean environment with the wheel.

    `extra`: one of the wheel's, or none.
    `base`: one whose packages it has, too, without installing them again.
    """

    def __init__(
        self, home: Path, wheel: Path, extra: str = "", base: Environment | None = None
    ) -> None:
        self.home = home
        venv.create(home, with_pip=True)
        self._packages = next(home.glob("lib/python*/site-packages"))
        if base is not None:
            (self._packages / "base.pth").write_text(f"{base._packages}\n")
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        run(home / "bin" / "pip", "install", "--quiet", wanted, cwd=home)

    def python(self, program: str, *arguments: str, cwd: Path, **environment: str) -> str:
        """Run a program."""
        return run(self.home / "bin" / "python", "-c", program, *arguments, cwd=cwd, **environment)

    def streamk(self, *arguments: str, cwd: Path, **environment: str) -> str:
        """Run the command."""
        return run(
            self.home / "bin" / "python", "-m", "streamk", *arguments, cwd=cwd, **environment
        )
