"""The metadata of the cluster: its records, the immutable image, and the delta between two images.

Nothing here does I/O or makes decisions: `controller` creates records, `quorum` commits them, and this package applies
them to the image. Start with `image`, then `replay`.
"""
