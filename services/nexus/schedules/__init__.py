"""Goals on a schedule: kept in one record, begun at their times, one goal for each run."""
