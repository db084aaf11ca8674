"""The cluster's metadata: its records, the immutable image that they add up to, and the change from one image
to the next.

Nothing here does I/O and nothing decides: `controller` makes records, `quorum` commits them, and this
package says what they mean. Start with `image`, then `replay`.
"""
