"""What tests of the encoding share."""

from __future__ import annotations

from typing import Any

from streamk.encoding import ColumnTable


def rows_of(table: ColumnTable, events: list[dict[str, Any]]) -> list[list[float]]:
    """Admit events to a table one by one; return each as a row of the columns by then."""
    found = []
    for event in events:
        read = table.read(event)
        table.admit(read)
        found.append(table.row(read).tolist())
    return found
