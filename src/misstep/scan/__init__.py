"""From sessions on disk to a profile of missteps: discovery, the derived index, workers, shards and sums."""
