#!/bin/sh
# The commits since the last tag, oldest first: hash, date and subject.
last=$(git describe --tags --abbrev=0 2>/dev/null)
git log --reverse --no-merges --format='%h %as %s' ${last:+"$last"..HEAD}
