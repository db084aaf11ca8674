"""From a topology to Structured Streaming: `cut` into stages, their functions fused, their queries built."""
