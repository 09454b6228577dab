"""Keeps plain text out of Temporal: payloads are encrypted before they leave, and decrypted where they are used.

    export PAYLOAD_KEY=$(python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())")
    export TIDEMILL_CLIENT_PLUGINS=tidemill.examples.encryption:Encryption
    tidemill worker

Workers, commands and programs need the same variables. Temporal's UI shows payloads with a codec server.
"""

import os
from collections.abc import Sequence
from dataclasses import replace

from cryptography.fernet import Fernet
from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.plugin import SimplePlugin

ENCODING = b"binary/encrypted"


class FernetCodec(PayloadCodec):
    """Encrypts whole payloads, with what says how they are encoded."""

    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(key)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload(metadata={"encoding": ENCODING}, data=self._fernet.encrypt(payload.SerializeToString()))
            for payload in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._decoded(payload) for payload in payloads]

    def _decoded(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCODING:  # from before there was a key
            return payload
        return Payload.FromString(self._fernet.decrypt(payload.data))


class Encryption(SimplePlugin):
    """The codec as a plugin; it leaves the converter, which knows tidemill's models, as it is."""

    def __init__(self) -> None:
        codec = FernetCodec(os.environ["PAYLOAD_KEY"].encode())

        def with_codec(converter: DataConverter | None) -> DataConverter:
            return replace(converter or DataConverter.default, payload_codec=codec)

        super().__init__("encryption", data_converter=with_codec)
