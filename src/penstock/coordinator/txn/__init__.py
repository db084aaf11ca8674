"""The transaction coordinator: the producer of each transactional id, and the state of its transaction."""
