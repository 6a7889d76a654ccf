"""The files that an address names."""

from __future__ import annotations

import difflib
from pathlib import Path

from connectors.errors import Unavailable

__all__ = ["Files", "existing_file"]


class Files:
    """A file, the files that match a pattern (`*`), or those below a directory.

    Parameters
    ----------
    place : Path
    below : str
        Pattern of the files below a directory; without one a directory is refused.

    Attributes
    ----------
    are_many : bool
        There may be more of them later.
    name : str
        Of all of them together.
    """

    def __init__(self, place: Path, *, below: str = "") -> None:
        self._place, self._root, self._pattern = place, place.parent, ""
        self.name = place.name
        if below and place.is_dir():
            self._root, self._pattern = place, f"**/{below}"
            self.name = place.name or place.resolve().name
        elif "*" in str(place) and not place.exists():
            first = next(i for i, part in enumerate(place.parts) if "*" in part)
            self._root = Path(*place.parts[:first])
            self._pattern = self.name = "/".join(place.parts[first:])
        self.are_many = bool(self._pattern)

    def listed(self) -> list[str]:
        """Return the names of the files that there are, in order.

        Raises
        ------
        Unavailable
            If it is one, and not there.
        """
        if not self.are_many:
            return [existing_file(self._place).name]
        names = sorted(path.relative_to(self._root) for path in self._root.glob(self._pattern))
        return [
            str(name)
            for name in names
            if not any(part.startswith(".") for part in name.parts) and self.path(name).is_file()
        ]

    def path(self, name: str | Path) -> Path:
        """Return where a file is, or was."""
        return self._root / name

    def nothing(self) -> Unavailable:
        """Return the error for none."""
        return Unavailable(f"no file matches {self._root / self._pattern}")


def existing_file(path: Path) -> Path:
    """`path`, if it is a file. Raises `Unavailable`, with the nearest name there is."""
    if path.is_file():
        return path
    if path.is_dir():
        raise Unavailable(f"{path} is a directory, not a file; {path}/* are the files in it")
    names = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names, 1)
    raise Unavailable(f"no file {path}" + (f"; did you mean {near[0]!r}?" if near else ""))
