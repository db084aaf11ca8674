"""What a leader knows of its followers, and what follows for the ISR and the high watermark.

`Partition` owns one, and moves the high watermark. Nothing here touches a log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.metadata.errors import Refused
from penstock.metadata.image import PartitionImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition import AlterPartitionResponsePartition
from penstock.protocol.types import Uuid
from penstock.replication.followers import UNKNOWN_BROKER_EPOCH, Followers
from penstock.replication.isr import Isr, IsrContext, IsrProposal, is_eligible

logger = logging.getLogger(__name__)

# The controller has not changed the ISR, and will not.
REFUSALS = (
    ErrorCode.INELIGIBLE_REPLICA,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.INVALID_REQUEST,
)
# The metadata brings a newer state, or the topic is gone. Until then the ISR stays pending.
OUTDATED = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
REFUSED_WAIT_MS = 1_000  # before the leader proposes an ISR again that the controller has refused


class Leadership:
    """The leader's side of one partition. Also a `LedPartition`, which the controller's answers reach."""

    __slots__ = (
        "_context",
        "_isr",
        "_on_isr_change",
        "_requests_of",
        "epoch_start_offset",
        "followers",
        "index",
        "is_leader",
        "leader_epoch",
        "partition_epoch",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: Uuid,
        context: IsrContext | None,
        on_isr_change: Callable[[], None],
        requests_of: Callable[[int], list[int]],
    ) -> None:
        """Without `context`, the ISR changes only with the metadata. `on_isr_change` is called after the controller
        has answered a proposal. `requests_of` returns the numbers of a follower's last requests."""
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.followers = Followers()
        self.is_leader = False
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.epoch_start_offset = 0
        """Where the leadership began; a high watermark below it may not be the cluster's yet."""
        self._context = context
        self._isr = Isr()
        self._on_isr_change = on_isr_change
        self._requests_of = requests_of

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR."""
        return self._isr.committed

    @property
    def maximal_isr_size(self) -> int:
        return len(self._isr.maximal)

    def lead(self, state: PartitionImage, others: list[int]) -> None:
        """Become or stay leader, with the followers and the ISR that the metadata has."""
        is_known = (
            self.is_leader
            and state.partition_epoch == self.partition_epoch
            and state.leader_epoch == self.leader_epoch
        )
        if state.leader_epoch > self.leader_epoch:
            self.followers.clear()
        self.is_leader = True
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        if not is_known or self._isr.pending is None:
            self._set_committed(state.isr)
        # Otherwise a proposal that applies to this very state stays pending.
        now_ms = self._context.now_ms() if self._context is not None else 0
        self.followers.assign(others, self._isr.maximal, now_ms=now_ms)

    def resign(self, state: PartitionImage) -> None:
        self.is_leader = False
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self._isr.commit(state.isr)
        self.followers.clear()

    # -- followers

    def fetched(
        self,
        node_id: int,
        *,
        end_offset: int,
        start_offset: int,
        broker_epoch: int,
        leader_end_offset: int,
        now_ms: int,
    ) -> bool:
        """A follower fetches from `end_offset`, so it has everything below. False if it is no follower."""
        follower = self.followers.get(node_id)
        if follower is None:
            return False
        if broker_epoch != UNKNOWN_BROKER_EPOCH and self._context is not None:
            registered_epoch = self._context.broker_epoch(node_id)
            if broker_epoch < registered_epoch:
                raise _older_process(node_id, broker_epoch, f"{registered_epoch} is registered")
            if broker_epoch < follower.broker_epoch:  # the metadata with its registration is on its way
                raise _older_process(node_id, broker_epoch, f"{follower.broker_epoch} has fetched")
        follower.fetched(
            end_offset=end_offset,
            start_offset=start_offset,
            broker_epoch=broker_epoch,
            leader_end_offset=leader_end_offset,
            now_ms=now_ms,
        )
        return True

    def joined_end_offset(self, end_offset: int, leader_end_offset: int) -> int:
        """How far the high watermark may move if it waits also for followers that are about to join the ISR: under
        constant load they would never reach one that does not wait for them."""
        context = self._context
        if context is None:
            return end_offset
        now_ms = context.now_ms()
        for follower in self.followers.out_of_sync:
            if (
                follower.end_offset < end_offset
                and follower.is_fetching
                and follower.is_caught_up(leader_end_offset, now_ms=now_ms, lag_ms_max=context.lag_ms_max)
                and is_eligible(follower, context)
            ):
                end_offset = follower.end_offset
        return end_offset

    # -- changes of the ISR

    def expand(self, high_watermark: int) -> None:
        """Propose that followers which have caught up join the ISR."""
        if self._context is None or not self.is_leader:
            return
        for follower in self.followers.out_of_sync:
            if not follower.is_fetching:  # requests that do not name an idle partition count, too
                requests = self._requests_of(follower.node_id)
                follower.is_fetching = any(each not in follower.requests_when_left for each in requests)
        isr = self._isr.expansion(
            self.followers,
            self._context,
            high_watermark=high_watermark,
            epoch_start_offset=self.epoch_start_offset,
        )
        if isr is not None:
            self._propose(isr, self._context)

    def shrink(self, leader_end_offset: int) -> None:
        """Propose that followers which have been behind for too long leave the ISR."""
        if self._context is None or not self.is_leader or not self.followers.in_sync:
            return
        isr = self._isr.shrink(self.followers, self._context, leader_end_offset=leader_end_offset)
        if isr is not None:
            leaving = [node_id for node_id in self.isr if node_id not in isr]
            logger.info(
                "%s: removing %s from the ISR; behind for longer than replica.lag.time.max.ms", self, leaving
            )
            self._propose(isr, self._context)

    def _propose(self, isr: tuple[int, ...], context: IsrContext) -> None:
        """From now on the high watermark waits for the members of both ISRs."""
        epochs = []
        for node_id in isr:
            follower = self.followers.get(node_id)
            epochs.append(context.broker_epoch(node_id) if follower is None else follower.broker_epoch)
        proposal = IsrProposal(isr, tuple(epochs), self.leader_epoch, self.partition_epoch)
        self._isr.begin(proposal)
        self.followers.set_in_sync(self._isr.maximal)
        context.propose(self, proposal)

    def is_pending(self, proposal: IsrProposal) -> bool:
        return self.is_leader and self._isr.pending is proposal

    def isr_answered(self, proposal: IsrProposal, answer: AlterPartitionResponsePartition) -> bool:
        """The controller answered a proposal. False if it must be sent again."""
        error = answer.error_code
        if not self.is_pending(proposal) or error in OUTDATED:
            return True
        if error == ErrorCode.NONE:
            # With another epoch, the metadata is on its way.
            is_current = (
                answer.leader_epoch == self.leader_epoch and answer.partition_epoch >= self.partition_epoch
            )
            if is_current and not self._must_wait_for_metadata(answer):
                self.partition_epoch = answer.partition_epoch
                logger.info("the ISR of %s is now %s", self, answer.isr)
                self._commit(tuple(answer.isr))
            return True
        if error in REFUSALS:
            message = "the controller did not accept the ISR %s of %s: %s"
            logger.info(message, list(proposal.isr), self, error.name)
            if self._context is not None:
                self._isr.retry_ms = self._context.now_ms() + REFUSED_WAIT_MS
            self._commit(self.isr)
            return True
        return False

    def _must_wait_for_metadata(self, answer: AlterPartitionResponsePartition) -> bool:
        """A smaller ISR stays pending until it is in the metadata. A larger `min.insync.replicas` may precede it there:
        then the controller has made the replicas that left eligible leader replicas (KIP-966), and the high watermark
        must not pass them."""
        is_new = answer.partition_epoch > self.partition_epoch
        return is_new and any(node_id not in answer.isr for node_id in self.isr)

    def _commit(self, isr: tuple[int, ...]) -> None:
        self._set_committed(isr)
        self.followers.set_in_sync(isr)
        self._on_isr_change()

    def _set_committed(self, isr: tuple[int, ...]) -> None:
        for node_id in self._isr.committed:
            follower = self.followers.get(node_id)
            if follower is not None and node_id not in isr:
                follower.left_isr(self._requests_of(node_id))
        self._isr.commit(isr)


def _older_process(node_id: int, broker_epoch: int, newer: str) -> Refused:
    return Refused(
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        f"broker {node_id} fetches with broker epoch {broker_epoch}, but {newer}",
    )
