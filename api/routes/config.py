"""What the user interface asks first: who it is, what it looks like, what is in its menu."""

from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Depends

from ..auth.access import authorise
from ..auth.tokens import Person
from ..dependencies import Limit, Offset, Source
from ..pages.tabs import external_views
from ..responses.common import Answer
from ..static_ui import VERSION
from .installation import providers_of

router = APIRouter()

REFRESH_SECONDS = 5
TEAL = {
    "50": "oklch(0.97 0.02 195)",
    "100": "oklch(0.94 0.04 195)",
    "200": "oklch(0.88 0.07 195)",
    "300": "oklch(0.80 0.10 195)",
    "400": "oklch(0.70 0.12 195)",
    "500": "oklch(0.60 0.11 195)",
    "600": "oklch(0.52 0.10 195)",
    "700": "oklch(0.44 0.09 195)",
    "800": "oklch(0.37 0.07 195)",
    "900": "oklch(0.30 0.06 195)",
    "950": "oklch(0.22 0.04 195)",
}
ICON = "static/tidemill.svg"
HONESTY = (
    "The user interface is Apache Airflow's, unchanged (Apache-2.0). Tidemill is not a project of the Apache Software "
    "Foundation, and not endorsed by it."
)
MENU = ["Assets", "Audit Log", "Connections", "Dags", "Pools", "Required Actions", "Variables"]
"""Pages that have something to show here, whatever is installed."""


class Me(Answer):
    id: str
    username: str


class Menu(Answer):
    authorized_menu_items: list[str]
    extra_menu_items: list[dict[str, str]]


class VersionInfo(Answer):
    version: str
    git_version: str | None


@router.get("/ui/config")
async def get_config(client: Source) -> dict[str, Any]:
    """What the user interface looks like, and what it may offer."""
    return {
        "fallback_page_limit": 50,
        "auto_refresh_interval": REFRESH_SECONDS,
        "hide_paused_dags_by_default": False,
        "instance_name": client.settings.instance_name,
        "enable_swagger_ui": False,
        "require_confirmation_dag_change": False,
        "default_wrap": False,
        "test_connection": "Disabled",
        "dashboard_alert": [{"text": HONESTY, "category": "info"}],
        "show_external_log_redirect": False,
        "external_log_name": None,
        "theme": {
            "tokens": {"colors": {"brand": {name: {"value": value} for name, value in TEAL.items()}}},
            "icon": ICON,
            "icon_dark_mode": ICON,
        },
        "multi_team": False,
        "rerun_with_latest_version": None,
    }


@router.get("/ui/auth/menus")
async def get_menus(client: Source) -> Menu:
    """The pages that there are."""
    providers = ["Providers"] if await providers_of(client) else []
    return Menu(authorized_menu_items=[*MENU, *providers], extra_menu_items=[])


@router.get("/ui/auth/me")
async def get_me(person: Annotated[Person, Depends(authorise)]) -> Me:
    """Who is asking."""
    return Me(id=person.name, username=person.name)


@router.get("/api/v2/plugins")
async def get_plugins(limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Tidemill's own tabs, as a plugin of the user interface."""
    plugin = {
        "name": "tidemill",
        "macros": [],
        "flask_blueprints": [],
        "fastapi_apps": [],
        "fastapi_root_middlewares": [],
        "external_views": external_views(),
        "react_apps": [],
        "appbuilder_views": [],
        "appbuilder_menu_items": [],
        "global_operator_extra_links": [],
        "operator_extra_links": [],
        "source": f"tidemill {version('tidemill')}",
        "listeners": [],
        "timetables": [],
    }
    return {"plugins": [plugin][offset : offset + limit], "total_entries": 1}


@router.get("/api/v2/plugins/importErrors")
async def get_plugin_errors() -> dict[str, Any]:
    """Plugins are of one piece with tidemill."""
    return {"import_errors": [], "total_entries": 0}


@router.get("/api/v2/version")
async def get_version() -> VersionInfo:
    """The release of Airflow whose API this is, and tidemill's own."""
    return VersionInfo(version=VERSION, git_version=f"tidemill {version('tidemill')}")
