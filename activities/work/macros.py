"""Airflow's `macros`: what templates can calculate with."""

import json
import random
import time
import uuid
from datetime import datetime, timedelta
from types import SimpleNamespace

import dateutil
import dateutil.parser
import dateutil.relativedelta
import pendulum


def ds_add(ds: str, days: int) -> str:
    """The date *days* after *ds*, both as YYYY-MM-DD."""
    return (datetime.strptime(ds, "%Y-%m-%d") + timedelta(days=days)).strftime("%Y-%m-%d")


def ds_format(ds: str, input_format: str, output_format: str) -> str:
    return datetime.strptime(ds, input_format).strftime(output_format)


def ds_format_locale(ds: str, input_format: str, output_format: str, locale: str | None = None) -> str:
    """*ds* in another format of Babel's, with the words of *locale*, such as de_DE."""
    from babel.core import Locale, default_locale  # only here: a large library
    from babel.dates import format_datetime

    found = Locale.parse(locale or default_locale("LC_TIME") or "en_US")
    return format_datetime(datetime.strptime(ds, input_format), format=output_format, locale=found)


def datetime_diff_for_humans(dt: datetime, since: datetime | None = None) -> str:
    """How long ago *dt* was, in words; with *since*, how far it is from there."""
    return pendulum.instance(dt).diff_for_humans(None if since is None else pendulum.instance(since))


MACROS = SimpleNamespace(
    datetime=datetime,
    datetime_diff_for_humans=datetime_diff_for_humans,
    dateutil=dateutil,
    ds_add=ds_add,
    ds_format=ds_format,
    ds_format_locale=ds_format_locale,
    json=json,
    random=random.random,
    time=time,
    timedelta=timedelta,
    uuid=uuid,
)
"""Airflow's `macros`."""
