"""What the Python hosts of group members share: orders and events, as compat.groups.members has them."""

import json
import sys
import threading
import time
import traceback

_writing = threading.Lock()


def tell(member, event, **details):
    line = json.dumps({"member": member, "at": time.time_ns() // 1000, "event": event, **details})
    with _writing:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def orders():
    for line in sys.stdin:
        yield json.loads(line)


class Member:
    """Tells what happens to one member. Records are told in lumps, and always before what changes the ownership."""

    def __init__(self, order):
        self.name = order["member"]
        self.order = order
        self.leaving = threading.Event()
        self._records = []

    def read(self, partition, offset, value):
        self._records.append((partition, offset, int(value)))

    def tell_records(self):
        if self._records:
            tell(self.name, "read", records=self._records)
            self._records = []

    def tell(self, event, partitions=None, **details):
        self.tell_records()
        if partitions is not None:
            details["partitions"] = sorted(partition.partition for partition in partitions)
        tell(self.name, event, **details)


def run_in_threads(run):
    """A thread a member, until stdin ends; `run(member)` returns when the member left."""

    def guarded(member):
        try:
            run(member)
            member.tell("left")
        except Exception:
            member.tell("failed", error=traceback.format_exc()[-3000:])

    members, threads = {}, []
    for order in orders():
        if order["do"] == "join":
            member = members[order["member"]] = Member(order)
            threads.append(threading.Thread(target=guarded, args=[member]))
            threads[-1].start()
        else:
            members[order["member"]].leaving.set()
    for member in members.values():
        member.leaving.set()
    for thread in threads:
        thread.join()
