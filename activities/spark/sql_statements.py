"""Splits SQL into its statements by tokens, as Spark does: a semicolon may be in a text, a name or a comment."""

from collections.abc import Iterator
from typing import ClassVar

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from ...model.errors import InvalidInputError

BLOCKS = ("IF", "WHILE", "LOOP", "REPEAT", "FOR")
"""What an END may name that its BEGIN or CASE is not."""


class _Tokenizer(Spark.Tokenizer):
    """Spark's tokens, and bodies of functions between dollar signs."""

    HEREDOC_STRINGS: ClassVar[list[str | tuple[str, str]]] = ["$"]
    HEREDOC_TAG_IS_IDENTIFIER = True
    HEREDOC_STRING_ALTERNATIVE = TokenType.PARAMETER


def statements_of(sql: str) -> list[str]:
    """Return the statements of *sql*, without those that are only comments. Raises InvalidInputError."""
    try:
        tokens = _Tokenizer(dialect="spark").tokenize(sql)
    except TokenError as error:
        raise InvalidInputError(
            f"the task's SQL cannot be split into statements: {error}. Close what is open"
        ) from None
    found, begin, number = [], 0, 0
    while number < len(tokens):
        end = _end_of_statement(tokens, number)
        stop = tokens[end].start if end < len(tokens) else len(sql)
        if end > number:
            found.append(sql[begin:stop].strip())
        begin, number = stop + 1, end + 1
    return found


def _end_of_statement(tokens: list[Token], first: int) -> int:
    """Return the index of the semicolon that ends the statement which begins at *first*: of a script the last one."""
    if tokens[first].text.upper() == "BEGIN" and (end := _end_of_script(tokens, first)) is not None:
        first = end
    return next((n for n in range(first, len(tokens)) if _is_end(tokens[n])), len(tokens))


def _end_of_script(tokens: list[Token], first: int) -> int | None:
    """Return the index of the END of the BEGIN at *first*; None where it has none, and so is no script."""
    depth = 0
    for number, token, following in _with_next(tokens, first):
        word = token.text.upper() if token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER) else ""
        if word in ("BEGIN", "CASE"):
            depth += 1
        elif word == "END" and following not in BLOCKS:
            depth -= 1
            if depth == 0:
                return number
    return None


def _with_next(tokens: list[Token], first: int) -> Iterator[tuple[int, Token, str]]:
    for number in range(first, len(tokens)):
        yield number, tokens[number], tokens[number + 1].text.upper() if number + 1 < len(tokens) else ""


def _is_end(token: Token) -> bool:
    return token.token_type is TokenType.SEMICOLON
