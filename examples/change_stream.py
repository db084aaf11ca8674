"""A change stream joined as a table: every order meets its customer as he was when it came.

    penstock pipeline run examples/change_stream.py

The topic `customers` holds changes, as a database's log would tell them: the latest record of a key is the customer,
and one without a value is a customer who has gone. Orders are a stream; the customer at that time is joined to each.
"""

from __future__ import annotations

import os
from typing import TypedDict

from penstock.streams import App

BROKERS = os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "localhost:9092")


class Customer(TypedDict):
    name: str
    city: str


class Order(TypedDict):
    item: str
    cents: int


def delivery(order: Order, customer: Customer | None) -> dict[str, object]:
    """What is written for an order; a customer whom nobody knows has to be asked."""
    if customer is None:
        return {"item": order["item"], "to": None, "city": "unknown"}
    return {"item": order["item"], "to": customer["name"], "city": customer["city"]}


app = App("change-stream", brokers=BROKERS)

customers = app.table("customers", key=str, value=Customer)
orders = app.stream("orders", key=str, value=Order)
orders.left_join(customers, delivery).to("deliveries")

if __name__ == "__main__":
    app.run()
