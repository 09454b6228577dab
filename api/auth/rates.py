"""How often somebody may ask."""

from fastapi import HTTPException
from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

LOGINS = parse("20/minute")
"""Attempts to log in that have failed, and tokens that are nobody's: of one address."""
BEGUN_LOGINS = parse("120/minute")
"""Ways to an OpenID provider that were begun: of one address."""
CHANGES = parse("300/minute")
"""Changes by one person."""
READS = parse("6000/minute")
"""What one person looks at: an open page asks some times a second."""


class Rates:
    """Counts of one server."""

    def __init__(self) -> None:
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def count(self, what: RateLimitItem, whose: str) -> None:
        """Takes note of a request. Answers 429 if it is one too many."""
        if not self._limiter.hit(what, whose):
            self._refuse(what)

    @staticmethod
    def _refuse(what: RateLimitItem) -> None:
        message = f"there were more than {what.amount} requests of this kind in a minute. Try again in a minute"
        raise HTTPException(429, message, headers={"Retry-After": str(what.get_expiry())})
