"""The engine and the command: what they say, how fast they are and how long an event takes.

The parts, each a module with `measure(...)` and `render(...)`:

equal    the command's figures against those of River's loop
rates    events/s from files and topics, against what the client and the learner need alone
latency  event in to prediction out through Kafka, against an echo

`broker` starts Kafka, `clients` are its plain clients, `events` writes data sets as events.
"""
