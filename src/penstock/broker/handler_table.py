"""A table of handlers: the APIs that one kind of listener serves, their versions and their modules.

One module per API, named after it. Its `handle(target, request, context)` returns the response, or a future of it, or
None if the protocol has no response. The target is what the handlers of the table work on: a `Broker`, or a
`ControllerServer`. A module is imported at the first request of its API, because a node should start in milliseconds.

If consecutive requests of a client are cheaper together, the module also has `can_follow(first, following)`, which says
whether two requests can be combined, and `handle_run(target, requests, context)`, which returns a list of the responses
of `handle`, or a future of it. The context is that of the first request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from penstock.protocol.apis import ApiKey, api

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext

T = TypeVar("T")

Handle = Callable[[T, Any, "RequestContext"], "object | Awaitable[object] | None"]
HandleRun = Callable[[T, list[Any], "RequestContext"], "list[object] | Awaitable[list[object]]"]


class ServedApi(NamedTuple):
    key: int
    first_version: int
    last_version: int


class RunHandler(NamedTuple, Generic[T]):
    can_follow: Callable[[Any, Any], bool]
    handle_run: HandleRun[T]


class HandlerTable(Generic[T]):
    def __init__(
        self,
        package: str,
        modules: Mapping[ApiKey, str],
        *,
        first_versions: Mapping[ApiKey, int] | None = None,
    ) -> None:
        """`modules` are those of the package, in the order of the ApiVersions response. All declared versions of an API
        are supported, unless `first_versions` says otherwise."""
        self._package = package
        self._modules = {int(key): module for key, module in modules.items()}
        self._first_versions = {int(key): version for key, version in (first_versions or {}).items()}

    @cached_property
    def apis(self) -> tuple[ServedApi, ...]:
        """The content of ApiVersions."""
        served = ((key, self.versions(key)) for key in self._modules)
        return tuple(ServedApi(key, versions[0], versions[-1]) for key, versions in served)

    def versions(self, api_key: int) -> range:
        """The versions of one API; empty if it is not supported."""
        if api_key not in self._modules:
            return range(0)
        described = api(api_key)
        first_version = self._first_versions.get(api_key, described.first_version)
        return range(first_version, described.last_version + 1)

    def module(self, api_key: int) -> ModuleType:
        """The module of an API, imported at the first call. KeyError if the API is not supported."""
        return import_module(f"{self._package}.{self._modules[api_key]}")

    def handler(self, api_key: int) -> Handle[T]:
        """The handler of an API. KeyError if it is not supported."""
        handle: Handle[T] = self.module(api_key).handle
        return handle

    def run_handler(self, api_key: int) -> RunHandler[T] | None:
        """The functions of an API whose requests can be handled together, or None."""
        module = self.module(api_key)
        return RunHandler(module.can_follow, module.handle_run) if hasattr(module, "handle_run") else None
