"""People whom an OpenID provider knows: the authorization code flow with PKCE."""

import asyncio
import secrets
import time
from dataclasses import dataclass
from typing import Any

import httpx
import jwt
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.httpx_client import AsyncOAuth2Client

from ...worker.settings.groups import OidcSettings
from .tokens import Person, Role

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")
"""Signatures that anybody can check; those by a shared secret are not taken."""
TIMEOUT_SECONDS = 20
KNOWN_SECONDS = 3600
"""How long what the provider says of itself is taken as known."""
LEEWAY_SECONDS = 60


class NotKnownError(Exception):
    """The provider's answer lets nobody in. The message says why."""


@dataclass(frozen=True)
class Flow:
    """One attempt to log in, kept by the browser until it comes back from the provider."""

    state: str
    nonce: str
    code_verifier: str


@dataclass(frozen=True)
class _Provider:
    """What a provider says of itself."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    keys: jwt.PyJWKClient


class Oidc:
    """One provider."""

    def __init__(self, settings: OidcSettings) -> None:
        self.settings = settings
        self._known: tuple[float, _Provider] | None = None

    async def begin(self, redirect_uri: str) -> tuple[str, Flow]:
        """Where the browser is to go, and what it has to bring back. Raises NotKnownError without a provider."""
        provider = await self._provider()
        flow = Flow(*(secrets.token_urlsafe(48) for _ in range(3)))
        async with self._client(redirect_uri) as client:
            url, _ = client.create_authorization_url(
                provider.authorization_endpoint,
                state=flow.state,
                nonce=flow.nonce,
                code_verifier=flow.code_verifier,
            )
        return str(url), flow

    async def person(self, flow: Flow, redirect_uri: str, code: str) -> Person:
        """Who has come back with *code*. Raises NotKnownError for somebody who may not come in."""
        provider = await self._provider()
        try:
            async with self._client(redirect_uri) as client:
                answer = await client.fetch_token(provider.token_endpoint, code=code, code_verifier=flow.code_verifier)
        except (AuthlibBaseError, httpx.HTTPError, ValueError) as error:
            raise NotKnownError(f"the provider does not take its own code: {error}") from error
        claims = await asyncio.to_thread(self._claims, str(answer.get("id_token", "")), provider)
        if not secrets.compare_digest(str(claims.get("nonce", "")), flow.nonce):
            raise NotKnownError("the provider's answer belongs to another login")
        return self.person_of(claims)

    def person_of(self, claims: dict[str, Any]) -> Person:
        """Somebody by what the provider says of them: the highest role of any of their groups."""
        name = str(claims.get(self.settings.name_claim) or claims["sub"])
        if not name.isprintable():
            raise NotKnownError(f"the name {name!r} cannot be printed")
        if self.settings.name_claim == "email" and claims.get("email_verified") is False:
            raise NotKnownError(f"the provider has not verified that {name} is theirs")
        value = claims.get(self.settings.roles_claim)
        groups = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        groups = [group for group in groups if isinstance(group, str)]
        roles = [self.settings.roles[group] for group in groups if group in self.settings.roles]
        if not roles and self.settings.default_role is not None:
            roles = [self.settings.default_role]
        if not roles:
            raise NotKnownError(f"{name} has no role here: none of the groups {groups} has one")
        return Person(name, max(Role[role.upper()] for role in roles), is_of_oidc=True)

    def _client(self, redirect_uri: str) -> Any:
        secret = self.settings.client_secret
        return AsyncOAuth2Client(
            self.settings.client_id,
            secret.get_secret_value() if secret is not None else None,
            scope=self.settings.scope,
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            token_endpoint_auth_method="client_secret_basic" if secret is not None else "none",
            timeout=TIMEOUT_SECONDS,
        )

    async def _provider(self) -> _Provider:
        if self._known is not None and self._known[0] > time.monotonic():
            return self._known[1]
        issuer = self.settings.issuer
        try:
            async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
                found = await client.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                found.raise_for_status()
                metadata = found.json()
                known = _Provider(
                    str(metadata["issuer"]),
                    str(metadata["authorization_endpoint"]),
                    str(metadata["token_endpoint"]),
                    jwt.PyJWKClient(str(metadata["jwks_uri"]), timeout=TIMEOUT_SECONDS),
                )
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise NotKnownError(f"the provider {issuer} does not answer: {type(error).__name__} {error}") from error
        if known.issuer != issuer:
            raise NotKnownError(f"the provider calls itself {known.issuer!r}, and not {issuer!r}")
        self._known = (time.monotonic() + KNOWN_SECONDS, known)
        return known

    def _claims(self, id_token: str, provider: _Provider) -> dict[str, Any]:
        try:
            key = _key_of(provider.keys, id_token)
            found: dict[str, Any] = jwt.decode(
                id_token,
                key,
                algorithms=ALGORITHMS,
                audience=self.settings.client_id,
                issuer=provider.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError) as error:
            raise NotKnownError(f"the provider's answer cannot be trusted: {error}") from error
        return found


def _key_of(keys: jwt.PyJWKClient, id_token: str) -> jwt.PyJWK:
    """The key that signed it; a provider with one key need not name it. Raises jwt.PyJWTError for none."""
    if "kid" in jwt.get_unverified_header(id_token):
        return keys.get_signing_key_from_jwt(id_token)
    found = keys.get_signing_keys()
    if len(found) != 1:
        raise jwt.InvalidTokenError(f"it does not say which of {len(found)} keys has signed it")
    return found[0]
