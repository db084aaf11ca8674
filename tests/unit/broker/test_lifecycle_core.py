"""The life of a broker as the controller sees it: one story per test, in virtual milliseconds."""

from __future__ import annotations

import pytest

from penstock.broker.lifecycle_core import BrokerState, Heartbeat, LifecycleCore, Register
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid

DISK = Uuid(b"disk".ljust(16, b"\0"))
INTERVAL_MS = 2000


def starting(*, previous_broker_epoch: int = -1) -> LifecycleCore:
    return LifecycleCore(
        previous_broker_epoch=previous_broker_epoch,
        heartbeat_interval_ms=INTERVAL_MS,
        session_timeout_ms=9000,
        registration_timeout_ms=60_000,
        now_ms=0,
        draw=lambda: 0.5,
    )


def heartbeat(core: LifecycleCore, now_ms: float) -> Heartbeat:
    request = core.next_request(now_ms)
    assert isinstance(request, Heartbeat)
    return request


def answer(
    core: LifecycleCore, now_ms: float, *, caught_up: bool = True, fenced: bool = False, stop: bool = False
) -> None:
    core.heartbeat_answered(is_caught_up=caught_up, is_fenced=fenced, should_shut_down=stop, now_ms=now_ms)


def running() -> LifecycleCore:
    core = starting()
    core.next_request(0)
    core.registered(7, 0)
    core.metadata_applied(7, registered_epoch=7)
    core.set_ready(0)
    heartbeat(core, 0)
    answer(core, 0)
    assert core.state is BrokerState.RUNNING
    return core


def test_a_broker_registers_first_and_names_its_epoch_before_a_clean_shutdown() -> None:
    assert starting(previous_broker_epoch=5).next_request(0) == Register(5)


def test_a_broker_with_metadata_of_its_registration_needs_one_heartbeat_to_be_unfenced() -> None:
    core = starting()
    core.next_request(0)
    core.metadata_applied(7, registered_epoch=7)
    core.registered(7, 3)
    assert core.state is BrokerState.RECOVERY
    assert core.next_request(3) is None, "its partitions are not open yet"

    core.set_ready(4)

    assert heartbeat(core, 4) == Heartbeat(
        7, 7, want_fence=False, want_shut_down=False, offline_directories=()
    )
    answer(core, 5)
    assert core.state is BrokerState.RUNNING
    assert not core.is_fenced
    assert core.next_ms == 5 + INTERVAL_MS


def test_a_broker_behind_its_registration_stays_fenced_until_it_has_caught_up() -> None:
    core = starting()
    core.next_request(0)
    core.registered(100, 0)
    assert heartbeat(core, 0).want_fence
    answer(core, 1, caught_up=False, fenced=True)
    assert core.state is BrokerState.STARTING
    assert core.next_ms == 11, "a starting broker does not wait for the heartbeat interval"

    core.metadata_applied(100, registered_epoch=100)

    assert core.state is BrokerState.RECOVERY


def test_only_one_request_is_in_flight() -> None:
    core = starting()
    core.next_request(0)

    assert core.next_request(60_000) is None


def test_news_during_a_heartbeat_are_sent_right_after_its_response() -> None:
    core = running()
    heartbeat(core, INTERVAL_MS)
    core.directories_failed((DISK,), INTERVAL_MS)
    assert core.next_request(INTERVAL_MS) is None

    answer(core, INTERVAL_MS + 5)

    assert heartbeat(core, INTERVAL_MS + 5).offline_directories == (DISK,)


def test_lost_requests_are_retried_with_a_growing_wait_of_at_most_half_a_session() -> None:
    core = running()
    now_ms = core.next_ms
    waits = []
    for _ in range(10):
        heartbeat(core, now_ms)
        core.request_failed(now_ms)
        waits.append(core.next_ms - now_ms)
        now_ms = core.next_ms

    assert waits[:3] == [100, 200, 400]
    assert waits[-1] == 4500


def test_a_registration_that_finds_no_controller_ends_after_its_timeout() -> None:
    core = starting()
    now_ms = 0.0
    while core.failure is None:
        assert core.next_request(now_ms) == Register(-1)
        core.request_failed(now_ms)
        now_ms = core.next_ms

    assert "initial.broker.registration.timeout.ms=60000" in core.failure
    assert core.next_request(now_ms) is None


def test_an_earlier_process_with_a_live_session_is_waited_for() -> None:
    core = starting()
    core.next_request(0)
    core.registration_refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, 0)
    assert core.failure is None

    assert core.next_request(core.next_ms) == Register(-1)
    core.registration_refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, 60_000)

    assert core.failure is not None
    assert "another broker with this node.id is running" in core.failure


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "another cluster"),
        (ErrorCode.UNSUPPORTED_VERSION, "features"),
        (ErrorCode.INVALID_REGISTRATION, "log directories"),
    ],
)
def test_a_registration_that_can_never_succeed_ends_at_once(error: ErrorCode, words: str) -> None:
    core = starting()
    core.next_request(0)

    core.registration_refused(error, 0)

    assert core.failure is not None
    assert words in core.failure


@pytest.mark.parametrize("error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
def test_a_broker_whose_registration_is_gone_registers_again(error: ErrorCode) -> None:
    core = running()
    heartbeat(core, core.next_ms)

    core.heartbeat_refused(error, INTERVAL_MS)

    assert core.next_request(core.next_ms) == Register(7)
    core.registered(50, INTERVAL_MS + 100)
    assert heartbeat(core, INTERVAL_MS + 100).broker_epoch == 50
    assert core.state is BrokerState.RUNNING


@pytest.mark.parametrize("error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
def test_a_broker_that_lost_its_registration_still_names_its_last_epoch(error: ErrorCode) -> None:
    """Its fetches would pass for those of an old version otherwise, whose epoch the leader does not check."""
    core = running()
    heartbeat(core, core.next_ms)

    core.heartbeat_refused(error, INTERVAL_MS)
    assert core.broker_epoch == 7
    assert core.next_request(core.next_ms) == Register(7)
    core.registration_refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, core.next_ms)

    assert core.broker_epoch == 7


def test_a_fenced_broker_goes_on_with_its_heartbeats_and_is_unfenced_by_one() -> None:
    core = running()
    heartbeat(core, core.next_ms)
    answer(core, INTERVAL_MS, fenced=True)
    assert core.is_fenced

    heartbeat(core, core.next_ms)
    answer(core, 2 * INTERVAL_MS)

    assert not core.is_fenced


def test_a_controlled_shutdown_waits_until_the_leaders_have_moved() -> None:
    core = running()
    core.shut_down(100)
    assert heartbeat(core, 100).want_shut_down
    answer(core, 101)
    assert core.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    assert core.next_ms == 151, "the first response is asked for again quickly"

    heartbeat(core, 151)
    answer(core, 152)
    assert core.next_ms == 252, "each heartbeat moves a portion of the leaders"

    heartbeat(core, 252)
    answer(core, 253, stop=True)

    assert core.state is BrokerState.SHUTTING_DOWN
    assert core.next_request(core.next_ms) is None


def test_a_controlled_shutdown_without_a_controller_does_not_wait() -> None:
    core = running()
    core.shut_down(100)
    heartbeat(core, 100)

    core.request_failed(4600)

    assert core.state is BrokerState.SHUTTING_DOWN


def test_a_broker_that_never_registered_stops_at_once() -> None:
    core = starting()
    core.next_request(0)

    core.shut_down(1)

    assert core.state is BrokerState.SHUTTING_DOWN
