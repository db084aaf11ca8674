"""Group membership of a consumer, in both protocols.

`classic` and `consumer_protocol` decide (sans-IO), `reconciliation` tracks owned and target partitions, `offsets`
commits and looks up, and `member.GroupMember` drives one of the two protocols over a `ClusterClient`. Nothing here
fetches.
"""
