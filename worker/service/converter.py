"""Puts tidemill's models on the wire as plain JSON, and refuses what people ask for that does not fit, clearly."""

import gzip
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeGuard

from pydantic import ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.client import ClientConfig, Plugin
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    DefaultFailureConverterWithEncodedAttributes,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
    JSONPlainPayloadConverter,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import ConnectConfig, ServiceClient

from ...model.base import Request
from ...model.errors import explain

COMPRESSED_FROM = 40 * 1024
"""Above what a result may have to stay readable in Temporal's UI."""


class _ModelConverter(PydanticJSONPlainPayloadConverter):
    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """The value.

        A request of a person that does not fit fails its update for good, with what is wrong. Whatever else cannot be
        read was sent by another release: its workflow task, or activity, is tried again, until a worker can read it; a
        signal that cannot be read is passed over by the SDK.
        """
        if not _is_request(type_hint):
            return super().from_payload(payload, type_hint)
        try:
            return type_hint.model_validate_json(payload.data, extra="forbid")
        except ValidationError as error:
            message = str(explain(error, type_hint.__name__))
            raise ApplicationError(message, type="InvalidInput", non_retryable=True) from None


def _is_request(type_hint: type | None) -> TypeGuard[type[Request]]:
    return isinstance(type_hint, type) and issubclass(type_hint, Request)


class _LargeConverter(EncodingPayloadConverter):
    """Large values, compressed: the state of a run of thousands of tasks would else outgrow what Temporal takes."""

    def __init__(self, plain: EncodingPayloadConverter) -> None:
        self._plain = plain

    @property
    def encoding(self) -> str:
        return "json/gzip"

    def to_payload(self, value: Any) -> Payload | None:
        payload = self._plain.to_payload(value)
        if payload is None or len(payload.data) < COMPRESSED_FROM:
            return payload
        return Payload(metadata={"encoding": self.encoding.encode()}, data=gzip.compress(payload.data, 3, mtime=0))

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        plain = Payload(metadata={"encoding": self._plain.encoding.encode()}, data=gzip.decompress(payload.data))
        return self._plain.from_payload(plain, type_hint)


class TidemillPayloadConverter(CompositePayloadConverter):
    """Temporal's default converters, with pydantic's JSON in the place of plain JSON."""

    def __init__(self) -> None:
        models = _ModelConverter()
        known = DefaultPayloadConverter.default_encoding_payload_converters
        others = [converter for converter in known if not isinstance(converter, JSONPlainPayloadConverter)]
        super().__init__(*others, _LargeConverter(models), models)


def with_models(converter: DataConverter | None) -> DataConverter:
    """*converter* with tidemill's models; one that the user has chosen stays as it is.

    Where a codec encrypts payloads, failures are sent as such, too: their messages hold what tasks had in hand.
    """
    base = converter or DataConverter.default
    if base.payload_codec is not None and base.failure_converter_class is DefaultFailureConverter:
        base = replace(base, failure_converter_class=DefaultFailureConverterWithEncodedAttributes)
    if base.payload_converter_class is DefaultPayloadConverter:
        return replace(base, payload_converter_class=TidemillPayloadConverter)
    return base


class ModelsPlugin(Plugin):
    """What a client needs that runs no worker: tidemill's models on the wire."""

    def configure_client(self, config: ClientConfig) -> ClientConfig:
        config["data_converter"] = with_models(config.get("data_converter"))
        return config

    async def connect_service_client(
        self,
        config: ConnectConfig,
        next: Callable[[ConnectConfig], Awaitable[ServiceClient]],  # noqa: A002
    ) -> ServiceClient:
        return await next(config)
