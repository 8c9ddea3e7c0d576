"""Adapters to models: `scripted` (deterministic, ships with the code) and `anthropic` (the Messages API)."""

from agents.adapters.base import (
    REASONS,
    ModelAdapter,
    ModelError,
    Reply,
    ToolSpec,
    ToolUse,
    Usage,
    check_models,
    get_model,
)

__all__ = [
    "REASONS",
    "ModelAdapter",
    "ModelError",
    "Reply",
    "ToolSpec",
    "ToolUse",
    "Usage",
    "check_models",
    "get_model",
]
