"""Puts tidemill's models on the wire as plain JSON, and refuses what does not fit them, clearly."""

from typing import Any

from pydantic import ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import CompositePayloadConverter, DefaultPayloadConverter, JSONPlainPayloadConverter
from temporalio.exceptions import ApplicationError

from ..model.errors import explain


class _ModelConverter(PydanticJSONPlainPayloadConverter):
    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """The value. Input that does not fit fails its workflow, update or activity for good:
        raised as it is, Temporal would try the same input again for ever."""
        try:
            return super().from_payload(payload, type_hint)
        except ValidationError as error:
            what = getattr(type_hint, "__name__", "input")
            raise ApplicationError(str(explain(error, what)), type="InvalidInput", non_retryable=True) from None


class TidemillPayloadConverter(CompositePayloadConverter):
    """Temporal's default converters, with pydantic's JSON in the place of plain JSON."""

    def __init__(self) -> None:
        super().__init__(
            *(
                _ModelConverter() if isinstance(converter, JSONPlainPayloadConverter) else converter
                for converter in DefaultPayloadConverter.default_encoding_payload_converters
            )
        )
