"""The image that handlers read, and those who want to hear of every change.

There is one per node and it only moves forward: `publish` is called in the order of the metadata log, with
committed changes only. Listeners are called in the order in which they subscribed and must not raise; one
that does stops the node rather than letting it serve a cluster that half of its parts have not heard of.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage

Listener = Callable[[MetadataDelta], None]


class MetadataCache:
    def __init__(self, image: MetadataImage = EMPTY_IMAGE) -> None:
        self.image = image
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Hear of every change from now on; what holds already is in `image`."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def publish(self, delta: MetadataDelta) -> None:
        assert delta.before is self.image, "metadata changes are published in order, each once"
        self.image = delta.image
        for listener in tuple(self._listeners):
            listener(delta)
