"""The tables of the live page in a browser: filtered, bounded, and text whatever comes."""

from __future__ import annotations

from browser_kit import browser, feeding, job  # noqa: F401 (a fixture)
