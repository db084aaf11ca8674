"""A change stream as a table: each order is joined with the current state of its customer.

    penstock pipeline run examples/change_stream.py

The topic `customers` holds changes, like the change log of a database: the latest record of a key is the customer,
and a record without a value deletes it. Orders are a stream.
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
    """The delivery of an order. An unknown customer has no name and city."""
    if customer is None:
        return {"item": order["item"], "to": None, "city": "unknown"}
    return {"item": order["item"], "to": customer["name"], "city": customer["city"]}


app = App("change-stream", brokers=BROKERS)

customers = app.table("customers", key=str, value=Customer)
orders = app.stream("orders", key=str, value=Order)
orders.left_join(customers, delivery).to("deliveries")

if __name__ == "__main__":
    app.run()
