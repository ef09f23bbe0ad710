#!/bin/sh
# A node that never answers.
test "$2" = --help || exec sleep 600
