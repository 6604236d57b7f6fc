"""The forms in which a model is asked to keep to a JSON schema."""

from typing import Any

JSON_OBJECT: dict[str, Any] = {"type": "json_object"}

_BOUNDS = frozenset(
    {
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
        "minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems",
        "minProperties", "maxProperties",
    }
)  # fmt: skip


def schema_format(schema: dict[str, Any]) -> dict[str, Any]:
    """Build OpenAI's strict `response_format` for a JSON schema."""
    named = {"name": "reply", "strict": True, "schema": schema}
    return {"type": "json_schema", "json_schema": named}


def without_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Copy a JSON schema without bounds on values: Anthropic and OpenAI answer some with 400."""
    kept = {name: value for name, value in schema.items() if name not in _BOUNDS}
    return {
        name: {key: _stripped(inner) for key, inner in value.items()}
        if name in {"properties", "$defs"} and isinstance(value, dict)
        else _stripped(value)
        for name, value in kept.items()
    }


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return without_bounds(value)
    return [_stripped(each) for each in value] if isinstance(value, list) else value
