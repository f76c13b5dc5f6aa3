#!/bin/sh
# What was remembered on one day, or in a time in words ("last week"), as a text, and as a memory of its own in the scope Digests. For cron, shortly after midnight:
#
#     15 0 * * *  /path/to/examples/nightly_digest.sh yesterday | mail -s "Yesterday" me
#
# Needs GNU date. Running it twice stores one digest: the second is told to be there already. Put the folder of the command on the PATH: cron knows few.
set -eu
day=${1:-yesterday}

# A line each: id, instant, scope, tags, confidence, text. What this script stored itself is left out.
texts=$(infinite-memory recall "$day" --scope ALL | awk -F '\t' '$3 != "Digests" { print "- " $6 }')
if [ -z "$texts" ]; then
    echo "Nothing was remembered $day."
    exit 0
fi
case $day in
today | yesterday | ????-??-??) title="Digest of $(date -d "$day" +%F)" ;;
*) title="Digest of $day, made $(date +%F)" ;; # a stretch of time in words has no one day
esac
printf '%s\n%s\n' "$title" "$texts"

if infinite-memory recall today --about "$title" --scope Digests 2>/dev/null | grep -qF "$title"; then
    echo "(stored already)"
else
    printf '%s\n%s\n' "$title" "$texts" | infinite-memory remember - --scope Digests --tag digest
fi
