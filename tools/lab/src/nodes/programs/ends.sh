#!/bin/sh
# A node that ends at once.
echo "kvorum: first" >&2
echo "kvorum: no room" >&2
exit 3
