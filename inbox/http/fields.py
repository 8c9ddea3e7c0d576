"""Fields that several routes share."""

import datetime
from typing import Annotated

from django.urls import register_converter
from ninja import Schema
from pydantic import BeforeValidator, ConfigDict, WithJsonSchema

MAX_ID = 2**63 - 1
ID_PATTERN = "[1-9][0-9]{0,18}"


class IdConverter:
    """`<id:name>` in a route: what cannot be the id of a row is an address that does not exist."""

    regex = ID_PATTERN

    def to_python(self, value: str) -> int:
        if int(value) > MAX_ID:
            raise ValueError
        return int(value)

    def to_url(self, value: int) -> str:
        return str(value)


register_converter(IdConverter, "id")

_ID_SCHEMA = {"type": "string", "pattern": f"^{ID_PATTERN}$"}

# In a path: a number by now, since the converter has read it.
PathId = Annotated[int, WithJsonSchema(_ID_SCHEMA)]
# In an answer: always a string.
Id = Annotated[str, BeforeValidator(str), WithJsonSchema(_ID_SCHEMA)]
Time = datetime.datetime


class Body(Schema):
    """What a caller sends: of exactly these types, without fields that nobody reads."""

    model_config = ConfigDict(extra="forbid", strict=True)
