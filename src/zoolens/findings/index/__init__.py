"""What can be searched: answers and figures of all models in the store, arranged for queries of microseconds."""
