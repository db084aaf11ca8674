"""A prepared transaction as text and as a pickle."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import errors
from penstock.client.prepared_transaction import PreparedTransaction, RecordPlace

PLACES = st.builds(
    RecordPlace,
    st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
)
PREPARED = st.builds(
    PreparedTransaction,
    st.text(min_size=1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.none() | PLACES,
) | st.builds(
    PreparedTransaction, st.text(min_size=1), st.integers(0, 9), st.integers(0, 9), is_empty=st.just(True)
)


@given(PREPARED)
def test_text_and_pickle_round_trip(prepared: PreparedTransaction) -> None:
    assert PreparedTransaction.parse(str(prepared)) == prepared
    assert pickle.loads(pickle.dumps(prepared)) == prepared


@pytest.mark.parametrize("text", ["", "writer", "1:2", "a:b::writer", "1:2:orders/0:writer"])
def test_other_text_is_rejected(text: str) -> None:
    with pytest.raises(errors.BadArgument, match="not a prepared transaction"):
        PreparedTransaction.parse(text)
