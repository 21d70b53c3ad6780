"""Whether memory tells what holds now: a store of a team over 60 days, made up, and asked."""
