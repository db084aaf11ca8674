"""Decodes keys and values of records into columns of Spark types, by a format and a schema.

A decoder takes a whole column of bytes and returns a whole column, together with the rows that it could not read,
each with its reason. Bad bytes never make it fail: `poison.py` decides whether a bad row fails the query, is dropped
or becomes a dead letter. `choosing.py` reads the options; every format has its own module.
"""

from penstock.spark.decoding.base import Bad, Decoded, Decoder
from penstock.spark.decoding.choosing import decoder_of

__all__ = ["Bad", "Decoded", "Decoder", "decoder_of"]
