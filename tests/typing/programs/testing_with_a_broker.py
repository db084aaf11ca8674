"""Every call of a broker for tests. Never run: type checkers read it."""

from __future__ import annotations

from penstock import Admin, Consumer, Producer, testing
from penstock.testing import Broker, BrokerFailed, Faults, PendingFault, SharedBroker, SharedSession


def serve() -> None:
    with Broker(settings={"num.partitions": 3}, port=9092) as broker:
        use(broker)
        script(broker.faults)
    try:
        other = testing.Broker(folder="data")
        other.close()
    except BrokerFailed as failure:
        print(failure)


def use(broker: Broker) -> None:
    servers: str = broker.bootstrap_servers
    producer: Producer = broker.producer(linger_ms=0)
    consumer: Consumer = broker.consumer("orders", group="billing")
    admin: Admin = broker.admin()
    broker.pause()
    broker.resume()
    broker.kill()
    is_running: bool = broker.is_running
    broker.start()
    broker.stop()
    broker.restart()
    log: str = broker.log(last_bytes=100)
    broker.close_clients()
    broker.close()
    print(servers, producer, consumer, admin, is_running, log)


def share() -> None:
    with SharedSession(settings={"num.partitions": 3}) as session:
        with session.share() as shared:
            use_shared(shared)
        running: Broker = session.broker
        print(running)
    other: SharedSession = testing.SharedSession()
    other.close()


def use_shared(shared: SharedBroker) -> None:
    servers: str = shared.bootstrap_servers
    orders: str = shared.topic("orders", partitions=3, config={"retention.ms": 1000})
    payments: str = shared.topic("payments", create=False)
    billing: str = shared.group("billing")
    writer: str = shared.name("writer")
    producer: Producer = shared.producer(transactional_id=writer)
    consumer: Consumer = shared.consumer(orders, group=billing)
    admin: Admin = shared.admin()
    shared.close_clients()
    shared.clean_up()
    print(servers, payments, producer, consumer, admin)


def script(faults: Faults) -> None:
    faults.drop_request("Produce")
    faults.drop_response("Produce", times=2)
    faults.silence("Fetch")
    faults.delay("Fetch", seconds=0.5)
    faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    for fault in faults.pending:
        left: PendingFault = fault
        print(left.api, left.kind, left.times)
    faults.clear()
