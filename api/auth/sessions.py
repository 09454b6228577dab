"""Who has logged in: tokens, sessions of browsers, and people that an OpenID provider knows."""

import time
from hmac import digest
from secrets import token_hex

import jwt

from .ended_sessions import EndedSessions
from .oidc import Oidc
from .tokens import Person, Role, TokenFile

ALGORITHM = "HS256"
ISSUER, ISSUER_OF_OIDC = "tidemill", "tidemill-oidc"
SESSION_SECONDS = 12 * 3600


class Access:
    """The ways in. *secret* is what servers sign sessions with."""

    def __init__(
        self,
        secret: bytes,
        token_file: TokenFile | None = None,
        oidc: Oidc | None = None,
        ended: EndedSessions | None = None,
    ) -> None:
        self.tokens, self.oidc = token_file, oidc
        self._ended = ended or EndedSessions(None, SESSION_SECONDS)
        self._secret = secret

    def person(self, shown: str) -> Person | None:
        """Whose token or session it is; None if it is nobody's."""
        found = self.tokens.person(shown) if self.tokens is not None else None
        return found or self.session_of(shown)

    def answers_as(self, person: Person) -> str:
        """Return the name that a person answers by: theirs, or where a token has the same, one that tells them apart.

        Else somebody who may choose their name at a provider would answer for whoever has that token.
        """
        has_token = self.tokens is not None and self.tokens.named(person.name) is not None
        return person.known_as if has_token else person.name

    def begin_session(self, person: Person) -> str:
        """What a browser, or a client, shows for a while instead of the token."""
        claims = {"sub": person.name, "exp": int(time.time()) + SESSION_SECONDS, "jti": token_hex(16)}
        if not person.is_of_oidc:
            return jwt.encode({**claims, "iss": ISSUER}, self._key_of_tokens, algorithm=ALGORITHM)
        claims |= {"iss": ISSUER_OF_OIDC, "role": person.role.name.lower()}
        return jwt.encode(claims, self._key_of_oidc, algorithm=ALGORITHM)

    def session_of(self, text: str) -> Person | None:
        """Whose session it is; None for one that is forged or over, or whose owner has no token any more."""
        if self._ended.has(text):
            return None
        if self.tokens is not None and (claims := self.read(text, self._key_of_tokens, ISSUER)) is not None:
            return self.tokens.named(str(claims["sub"]))
        if self.oidc is not None and (claims := self.read(text, self._key_of_oidc, ISSUER_OF_OIDC)) is not None:
            return Person(str(claims["sub"]), Role[str(claims["role"]).upper()], is_of_oidc=True)
        return None

    def end_session(self, text: str) -> None:
        """Have the session *text* be nobody's from now on, at every server that shares the home."""
        self._ended.add(text)

    def signed(self, claims: dict[str, object], purpose: str, seconds: int) -> str:
        """*claims*, for a browser to bring back within *seconds*."""
        values = {**claims, "sub": purpose, "iss": ISSUER, "exp": int(time.time()) + seconds}
        return jwt.encode(values, self._key(purpose), algorithm=ALGORITHM)

    def brought_back(self, text: str, purpose: str) -> dict[str, object] | None:
        """What was signed for that purpose; None if it was not, or is too old."""
        return self.read(text, self._key(purpose), ISSUER)

    @staticmethod
    def read(text: str, key: bytes, issuer: str) -> dict[str, object] | None:
        """What a signed text says; None if it is forged or over."""
        try:
            return dict(
                jwt.decode(text, key, algorithms=[ALGORITHM], issuer=issuer, options={"require": ["exp", "sub", "iss"]})
            )
        except jwt.PyJWTError:
            return None

    def _key(self, purpose: str) -> bytes:
        return digest(self._secret, purpose.encode(), "sha256")

    @property
    def _key_of_tokens(self) -> bytes:
        """Another when any token changes."""
        known = self.tokens.people if self.tokens is not None else {}
        return self._key("tokens\n" + "\n".join(sorted(known)))

    @property
    def _key_of_oidc(self) -> bytes:
        """Another when it changes who may do what. The provider's secret is a part of it, which no dump shows."""
        if self.oidc is None:
            return self._key("none")
        hidden = self.oidc.settings.client_secret
        secret = hidden.get_secret_value() if hidden is not None else ""
        return self._key(f"oidc\n{self.oidc.settings.model_dump_json()}\n{secret}")
