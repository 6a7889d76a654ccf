"""The description of the application's paths, after OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from streamk import __version__

__all__ = ["description"]

_EVENT = {
    "type": "object",
    "description": "An event as the job reads it; nested objects and texts are columns, too.",
    "examples": [{"age": 31, "device": "phone"}],
}
_PREDICTION = {
    "type": "object",
    "required": ["prediction"],
    "properties": {
        "prediction": {
            "description": "The most probable label, or the number.",
            "type": ["string", "number", "boolean", "null"],
        },
        "probabilities": {
            "description": "Of each class.",
            "type": "object",
            "additionalProperties": {"type": "number"},
        },
        "interval": {
            "description": "Bounds that hold the number with the probability asked for.",
            "type": ["array", "null"],
            "items": {"type": "number"},
        },
        "prediction_set": {
            "description": "Classes that hold the label with the probability asked for, in order.",
            "type": "array",
            "items": {"type": ["string", "number", "boolean"]},
        },
        "reasons": {
            "description": "The fields of the largest effect.",
            "type": ["array", "null"],
            "items": {
                "type": "object",
                "properties": {
                    "column": {"type": "string"},
                    "value": {"type": ["string", "number", "boolean", "null"]},
                    "effect": {"type": "number"},
                },
            },
        },
        "unknown": {
            "description": "Fields of the event that the model does not have, if there are any.",
            "type": "array",
            "items": {"type": "string"},
        },
        "nearest": {
            "description": "Of these, once in an answer, the fields that may have been meant.",
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
    },
}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {"type": "string"},
        "events": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "index": {"type": "integer"},
                    "column": {"type": ["string", "integer", "null"]},
                    "reason": {"type": "string"},
                },
            },
        },
    },
}


def description(body: int, events: int, with_token: bool, learns: bool) -> dict[str, Any]:
    """Return the description.

    Parameters
    ----------
    body, events : int
        Bytes and events that a request may have.
    with_token : bool
        Whether a token is asked for.
    learns : bool
        Whether events may be posted to be learned.
    """
    one, many = _ref("Prediction"), {"type": "array", "items": _ref("Prediction")}
    predict = {
        "summary": "Predict one event, or several",
        "parameters": [
            _parameter("interval", "With numbers an interval of this probability.", "number"),
            _parameter("prediction_set", "With classes a set of this probability.", "number"),
            _parameter("reasons", "With each prediction its reasons.", "boolean"),
        ],
        "requestBody": _body(body, events),
        "responses": {
            "200": _response("In the order of the events.", {"oneOf": [one, many]}),
            "422": _response("Some events are of no use; none is predicted.", _ref("Error")),
            **_REFUSALS,
        },
    }
    learn = {
        "summary": "Add one event with its label, or several, to what the job learns from",
        "requestBody": _body(body, events),
        "responses": {
            "202": _response("The events are in the log.", _TAKEN),
            "422": _response("Some events are of no use; none is taken.", _ref("Error")),
            "503": _response("The log does not take them now.", _ref("Error")),
            **_REFUSALS,
        },
    }
    paths: dict[str, Any] = {
        "/predict": {"post": predict},
        **({"/learn": {"post": learn}} if learns else {}),
        "/model": _get(
            "The model: task, classes, columns, events, age in seconds, and the names of the"
            " champion and its challengers"
        ),
        "/status": _get("The last point of the live page: figures, weights and importances"),
        "/metrics": _get("Figures for Prometheus"),
        "/healthz": _get("Whether the process answers"),
        "/readyz": _get("Whether there is a model to predict by, and new enough; 503 if not"),
    }
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "streamk", "version": __version__},
        "paths": paths,
        "components": {"schemas": {"Event": _EVENT, "Prediction": _PREDICTION, "Error": _ERROR}},
    }
    if with_token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path in paths.keys() - {"/healthz", "/readyz"}:
            for operation in paths[path].values():
                operation["security"] = [{"token": []}]
    return found


def _body(most: int, events: int) -> dict[str, Any]:
    schema = {"oneOf": [_ref("Event"), {"type": "array", "items": _ref("Event")}]}
    about = f"At most {most} bytes and {events} events."
    return {"required": True, "description": about, "content": _content(schema)}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _response(about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": about, "content": _content(schema)}


def _parameter(name: str, about: str, kind: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": about, "schema": {"type": kind}}


def _get(about: str) -> dict[str, Any]:
    return {"get": {"summary": about, "responses": {"200": {"description": about}}}}


_TAKEN = {"type": "object", "properties": {"taken": {"type": "integer"}}}
_REFUSALS = {
    "400": _response("The body or a parameter is of no use.", _ref("Error")),
    "403": _response("A page of another site asks.", _ref("Error")),
    "413": _response("The request is too large.", _ref("Error")),
    "415": _response("The body does not say that it is JSON.", _ref("Error")),
    "421": _response("Without a token nothing is answered at this name.", _ref("Error")),
}
