"""Every call of a broker for tests. Never run: type checkers read it."""

from __future__ import annotations

from penstock import Admin, Consumer, Producer, testing
from penstock.testing import Broker, BrokerFailed, Faults, PendingFault


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
    broker.close()
    print(servers, producer, consumer, admin, is_running, log)


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
