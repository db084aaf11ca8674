"""Group membership: what makes a consumer a member of a group, in both protocols.

`classic` and `consumer_protocol` decide (sans-IO), `holdings` knows what the application has and shall have,
`offsets` commits and looks up, and `member.GroupMember` drives one of the two machines over a `ClusterClient`. Nothing
here fetches.
"""
