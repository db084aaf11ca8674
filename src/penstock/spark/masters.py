"""What may stand for the place where Spark runs, told before a JVM is started for it; sans-IO.

Spark itself finds out that `lokal[2]` is nothing when its JVM is up, and ends it: what is left to see is that a gateway
has exited. So the form is checked here. Whether anybody is at an address is `sessions`' question.
"""

from __future__ import annotations

import difflib
import re

from penstock.client.errors.base import ClientError

FORMS = (
    ("local[*]", "all cores of this machine; local[4] takes four, local one"),
    ("spark://host:7077", "a standalone cluster; several masters with commas"),
    ("sc://host:15002", "Spark Connect"),
    ("yarn", "the cluster that HADOOP_CONF_DIR tells of"),
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
    """A place for Spark that Spark does not know."""


def check_master(master: str) -> None:
    """Refuse what Spark would not understand, with what there is."""
    if any(form.fullmatch(master) for form in _KNOWN):
        return
    there_is = ", ".join(f"{form} ({meaning})" for form, meaning in FORMS)
    raise BadMaster(f"Spark knows no master {master!r}{_meant(master)}; there is {there_is}")


def _meant(master: str) -> str:
    """The nearest beginning, where one is near enough to be meant."""
    begun = re.match(r"[A-Za-z0-9-]*(://)?", master)
    near = difflib.get_close_matches(begun[0].lower() if begun else "", _BEGINNINGS, n=1, cutoff=0.7)
    if not near or master.startswith(near[0]):
        return ""
    rest = master[begun.end() :] if begun else ""
    meant = f"{near[0]}{rest}"
    return f" (is {meant} meant?)" if any(form.fullmatch(meant) for form in _KNOWN) else ""
