"""The current image, which handlers read, and the listeners that are notified of every change.

There is one cache per node. `publish` is called in the order of the metadata log, with committed changes only.
Listeners are called in the order of their subscription and must not raise: an exception stops the node, so that it
never runs with a change that only some of its parts have applied.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.metadata.delta import MetadataDelta, as_new
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage

Listener = Callable[[MetadataDelta], None]


class MetadataCache:
    def __init__(self, image: MetadataImage = EMPTY_IMAGE) -> None:
        self.image = image
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Notify `listener` of every later change."""
        self._listeners.append(listener)

    def install(self, listener: Listener) -> None:
        """Pass the present image to `listener` as one change, and then every later change."""
        listener(as_new(self.image))
        self._listeners.append(listener)

    def __contains__(self, listener: Listener) -> bool:
        return listener in self._listeners

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def publish(self, delta: MetadataDelta) -> None:
        assert delta.before is self.image, "metadata changes are published in order, each once"
        self.image = delta.image
        for listener in tuple(self._listeners):
            listener(delta)
