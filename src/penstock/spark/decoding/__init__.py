"""Keys and values of records as columns of Spark types: from bytes, by a format and a schema.

A decoder takes a whole column of bytes and gives a whole column back, and with it the rows that it could not read,
each with its reason. It never fails for what is in the bytes: whether a bad row stops the query, is dropped or becomes
a dead letter is decided behind it, in `poison.py`. `choosing.py` reads the options; there is one module a format.
"""

from penstock.spark.decoding.base import Bad, Decoded, Decoder
from penstock.spark.decoding.choosing import decoder_of

__all__ = ["Bad", "Decoded", "Decoder", "decoder_of"]
