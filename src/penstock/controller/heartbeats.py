"""The sessions of brokers with the active controller: who is alive, and how far each has read the metadata log.

This is soft state: it is not in the metadata log, because a heartbeat every two seconds of every broker would fill it.
A new active controller gives every unfenced broker a full session timeout to report. Fencing itself is in the image;
`fencing` decides it with the help of these sessions.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import BrokerImage, MetadataImage

NO_OFFSET = -1


@dataclass(slots=True)
class BrokerSession:
    """What the active controller knows of a registered broker from its heartbeats."""

    node_id: int
    epoch: int
    """The broker epoch: a restarted broker gets a new session."""
    is_fenced: bool
    is_shutting_down: bool
    registered_offset: int
    """It may be unfenced once it has applied the metadata up to here, which includes its registration."""
    last_contact_ms: int
    has_contact: bool = False
    """Whether it has sent a heartbeat to this active controller."""
    metadata_offset: int = NO_OFFSET
    """The offset of the last record that it has applied."""
    is_being_fenced: bool = False
    """Whether some of its partitions have left it because its session expired. It is fenced once all have."""
    shutdown_offset: int = NO_OFFSET
    """In controlled shutdown: the offset of the last record that moved its leaders."""


class BrokerSessions:
    def __init__(self, session_timeout_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        self._sessions: dict[int, BrokerSession] = {}

    @classmethod
    def build(cls, image: MetadataImage, now_ms: int, session_timeout_ms: int) -> BrokerSessions:
        sessions = cls(session_timeout_ms)
        for broker in image.brokers.values():
            sessions._begin(broker, image.offset, now_ms)
        return sessions

    def apply(self, delta: MetadataDelta, now_ms: int) -> None:
        """Follow changes of registrations."""
        for node_id in delta.brokers:
            broker = delta.image.brokers.get(node_id)
            session = self._sessions.get(node_id)
            if broker is None:
                self._sessions.pop(node_id, None)
            elif session is None or session.epoch != broker.epoch:
                self._begin(broker, delta.image.offset, now_ms)
            else:
                if session.is_fenced and not broker.is_fenced:
                    session.last_contact_ms = now_ms
                session.is_fenced = broker.is_fenced
                session.is_shutting_down = broker.in_controlled_shutdown
                if broker.is_fenced:
                    session.shutdown_offset = NO_OFFSET
                    session.is_being_fenced = False

    def touch(self, node_id: int, *, now_ms: int, metadata_offset: int) -> None:
        """A heartbeat arrived. If the broker is being fenced, it comes too late: the session stays expired until the
        broker is fenced, and a later heartbeat unfences it and elects leaders of its partitions again."""
        session = self._sessions[node_id]
        if not session.is_being_fenced:
            session.last_contact_ms = now_ms
        session.has_contact = True
        session.metadata_offset = metadata_offset

    def end(self, node_id: int) -> None:
        """The broker may shut down now: its next incarnation need not wait until the session expires."""
        self._sessions[node_id].has_contact = False

    def expire(self, node_id: int, *, now_ms: int) -> None:
        """The process of the broker is gone: it can be fenced now, and its next incarnation need not wait."""
        session = self._sessions[node_id]
        session.last_contact_ms = now_ms - self._timeout_ms
        session.has_contact = False

    def began_fencing(self, node_id: int) -> None:
        """The first partitions leave the broker because its session expired."""
        self._sessions[node_id].is_being_fenced = True

    def is_being_fenced(self, node_id: int) -> bool:
        session = self._sessions.get(node_id)
        return session is not None and session.is_being_fenced

    def left_partitions(self, node_id: int, *, last_offset: int) -> None:
        """The last partitions have left the broker, which is in controlled shutdown. Its leaders have moved once all
        active brokers have applied the metadata up to `last_offset`."""
        self._sessions[node_id].shutdown_offset = last_offset

    def shutdown_offset(self, node_id: int) -> int:
        return self._sessions[node_id].shutdown_offset

    def registered_offset(self, node_id: int) -> int:
        return self._sessions[node_id].registered_offset

    def is_alive(self, node_id: int, *, now_ms: int) -> bool:
        """Whether the broker has sent a heartbeat within the session timeout."""
        session = self._sessions.get(node_id)
        return session is not None and session.has_contact and not self._is_expired(session, now_ms)

    def expired(self, now_ms: int) -> list[int]:
        """Brokers that must be fenced, the longest silent first."""
        silent = [
            session
            for session in self._sessions.values()
            if not session.is_fenced and self._is_expired(session, now_ms)
        ]
        silent.sort(key=lambda session: (session.last_contact_ms, session.node_id))
        return [session.node_id for session in silent]

    def next_expiry_ms(self) -> int | None:
        """When the next session expires; None if no broker is unfenced."""
        contacts = [session.last_contact_ms for session in self._sessions.values() if not session.is_fenced]
        return min(contacts) + self._timeout_ms if contacts else None

    def lowest_active_offset(self) -> int | None:
        """How far all active brokers have read the metadata log; None without active brokers."""
        return min(
            (
                session.metadata_offset
                for session in self._sessions.values()
                if not session.is_fenced and not session.is_shutting_down
            ),
            default=None,
        )

    def _begin(self, broker: BrokerImage, offset: int, now_ms: int) -> None:
        self._sessions[broker.node_id] = BrokerSession(
            node_id=broker.node_id,
            epoch=broker.epoch,
            is_fenced=broker.is_fenced,
            is_shutting_down=broker.in_controlled_shutdown,
            registered_offset=offset,
            last_contact_ms=now_ms,
        )

    def _is_expired(self, session: BrokerSession, now_ms: int) -> bool:
        return now_ms - session.last_contact_ms >= self._timeout_ms
