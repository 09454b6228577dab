"""What separates people, teams and tasks in this installation, and what does not: `tidemill doctor --security`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError

from ...model.bundle.data import BundleSettings
from ..client import Tidemill
from ..settings.reading import Settings
from .doctor import Check

OTHERS = 0o066
"""The bits of a mode that let others than the owner read and write."""


def _check(name: str, found: str, *, separates: bool, remedy: str) -> Check:
    return Check(name=name, ok=separates, found=found, remedy=None if separates else remedy)


def check_run_as(settings: Settings) -> Check:
    """Whether tasks are other users than the worker that looks after them."""
    named = sorted({*filter(None, (settings.run_as, *settings.run_as_users.values()))})
    return _check(
        "Tasks run as",
        ", ".join(named) or "the worker's own user",
        separates=settings.run_as is not None,
        remedy="Those that no TIDEMILL_RUN_AS_USERS names read what the worker's user can. Set TIDEMILL_RUN_AS",
    )


def check_network(settings: Settings) -> Check:
    """Whether tasks are without the worker's way to Temporal."""
    place = settings.task_network
    return _check(
        "Network of tasks",
        "the worker's own" if place is None else str(place),
        separates=place is not None and settings.run_as is not None,
        remedy="They reach Temporal as their worker does. Set TIDEMILL_TASK_NETWORK, or give tasks pods of their own",
    )


def check_home(settings: Settings) -> Check:
    """Whether others can read what tasks have returned and printed."""
    home = settings.home.resolve()
    mode = home.stat().st_mode & 0o777 if home.is_dir() else 0o700
    return _check(
        "Home of the worker",
        f"{home}, {mode:04o}" if home.is_dir() else f"{home}, not made yet",
        separates=not mode & OTHERS,
        remedy=f"Everybody on this host reads results there. chmod 0700 {home} (0711 with TIDEMILL_RUN_AS)",
    )


def check_web_home(settings: Settings) -> Check:
    """Whether the keys of the web are where tasks cannot be."""
    return _check(
        "Home of the web",
        str(settings.web_home),
        separates=settings.api_home is not None and not settings.web_home.is_relative_to(settings.home.resolve()),
        remedy="Tasks of a worker with this home can read the key of sessions. Set TIDEMILL_API_HOME to another folder",
    )


def check_people(settings: Settings) -> Check:
    """Whether the web asks who somebody is."""
    methods = [
        n for n, has in (("tokens", settings.api_tokens), ("an OpenID provider", settings.oidc)) if has is not None
    ]
    return _check(
        "People log in by",
        " and ".join(methods) or "nothing",
        separates=bool(methods),
        remedy="Whoever is on this host may change everything in the web. Set TIDEMILL_API_TOKENS or TIDEMILL_OIDC",
    )


def check_service(config: dict[str, Any]) -> Check:
    """Whether the Temporal service asks who somebody is."""
    required = [name for name, has in (("TLS", config.get("tls")), ("an API key", config.get("api_key"))) if has]
    return _check(
        "Temporal asks for",
        " and ".join(required) or "nothing",
        separates=bool(required),
        remedy="Whoever reaches the service may run DAGs. Set TEMPORAL_TLS and a certificate, or TEMPORAL_API_KEY",
    )


def check_secrets_file() -> list[Check]:
    """Whether others can read the file of variables and connections, where there is one."""
    name = os.environ.get("TIDEMILL_SECRETS_FILE")
    if name is None or not Path(name).is_file():
        return []
    mode = Path(name).stat().st_mode & 0o777
    remedy = f"Everybody on this host reads passwords there. chmod 0600 {name}"
    return [_check("Secrets file", f"{name}, {mode:04o}", separates=not mode & OTHERS, remedy=remedy)]


def check_payloads(client: Any) -> Check:
    """Whether histories hold what tasks return and fail of in plain text."""
    encrypted = client.data_converter.payload_codec is not None
    return _check(
        "Histories",
        "encrypted by a codec" if encrypted else "plain text",
        separates=encrypted,
        remedy="Whoever may read them reads results. Name a codec: TIDEMILL_CLIENT_PLUGINS (examples/encryption.py)",
    )


def check_bundles(bundles: Sequence[BundleSettings]) -> Check:
    """Whether each of several bundles keeps to names of its own."""
    free = [bundle.name for bundle in bundles if bundle.owns is None]
    return _check(
        "Bundles",
        f"{len(bundles) - len(free)} of {len(bundles)} own prefixes",
        separates=not free or len(bundles) == 1,
        remedy=f"{', '.join(free)}: may take any dag_id and read any connection. tidemill bundles set ... --owns",
    )


async def security_checks(settings: Settings) -> list[Check]:
    """All of these, of this host's settings and of the namespace that they lead to."""
    found = [check_run_as(settings), check_network(settings), check_home(settings), *check_secrets_file()]
    found += [check_web_home(settings), check_people(settings)]
    found.append(check_service({**ClientConfig.load_client_connect_config()}))
    try:
        tidemill = await Tidemill.connect(settings)
        bundles = [bundle.settings for bundle in await tidemill.bundles.list()]
    except (ConnectionError, RPCError) as error:
        return [*found, Check(name="Temporal service", ok=False, found=str(error)[:80], remedy="Look: tidemill doctor")]
    return [*found, check_payloads(tidemill.client), check_bundles(bundles)]
