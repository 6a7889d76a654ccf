"""Whether a stream has changed: tests that may be looked at after every event."""

from streamk.drift.streaming_mmd import StreamingMMD

__all__ = ["StreamingMMD"]
