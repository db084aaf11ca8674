"""Checks a Spark master URL before a JVM is started for it; sans-IO.

Spark finds out that `lokal[2]` is wrong only in its JVM, and the user sees nothing but a gateway that exited. So the
form is checked here. `sessions` checks whether a server answers.
"""

from __future__ import annotations

import difflib
import re

from penstock.client.errors.base import ClientError

FORMS = (
    ("local[*]", "all cores of this machine; local[4]: four, local: one"),
    ("spark://host:7077", "a standalone cluster; commas separate several masters"),
    ("sc://host:15002", "Spark Connect"),
    ("yarn", "the cluster in HADOOP_CONF_DIR"),
    ("k8s://https://host:6443", "Kubernetes"),
)

_THREADS = r"(\*|[1-9]\d*)"
_HOST = r"(\[[0-9A-Fa-f:.]+\]|[^\s\[\]:/,;?]+)(:\d{1,5})?"
_KNOWN = (
    re.compile(r"local"),
    re.compile(rf"local\[\s*{_THREADS}\s*(,\s*[1-9]\d*\s*)?\]"),
    re.compile(r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"),
    re.compile(rf"spark://{_HOST}(,{_HOST})*"),
    re.compile(rf"sc://{_HOST}(/[^\s]*)?"),
    re.compile(r"yarn"),
    re.compile(r"k8s://\S+"),
)
_BEGINNINGS = ("local", "spark://", "sc://", "yarn", "k8s://")


class BadMaster(ClientError):
    """A master URL that Spark does not know."""


def check_master(master: str) -> None:
    """Raise `BadMaster` for a URL that Spark does not understand, with the forms that it does."""
    if any(form.fullmatch(master) for form in _KNOWN):
        return
    known = ", ".join(f"{form} ({meaning})" for form, meaning in FORMS)
    raise BadMaster(f"unknown Spark master {master!r}{_suggestion(master)}; known are {known}")


def _suggestion(master: str) -> str:
    """The closest known form, if one is close enough."""
    begun = re.match(r"[A-Za-z0-9-]*(://)?", master)
    near = difflib.get_close_matches(begun[0].lower() if begun else "", _BEGINNINGS, n=1, cutoff=0.7)
    if not near or master.startswith(near[0]):
        return ""
    rest = master[begun.end() :] if begun else ""
    meant = f"{near[0]}{rest}"
    return f" (did you mean {meant}?)" if any(form.fullmatch(meant) for form in _KNOWN) else ""
